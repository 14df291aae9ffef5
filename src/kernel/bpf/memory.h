/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reading kernel objects of which only the address is known.
 */
#ifndef PARALFETCH_MEMORY_H
#define PARALFETCH_MEMORY_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Bytes in a page of the running kernel, set before the programs are loaded. */
const volatile __u32 page_bytes = 4096;

/* Since 6.2. */
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

/*
 * A field of the object of that type at an address. Where the kernel has bpf_rdonly_cast, this is a load
 * (one that fails reads as 0); older kernels take a helper's call for each.
 */
#define LOOK(type, address, field)                                                                     \
	({                                                                                             \
		const void *_at = (const void *)(address);                                             \
		typeof(((type *)0)->field) _value;                                                     \
                                                                                                       \
		if (bpf_ksym_exists(bpf_rdonly_cast)) {                                                \
			type *_object = bpf_rdonly_cast(_at, bpf_core_type_id_kernel(type));           \
			_value = _object->field;                                                       \
		} else {                                                                               \
			_value = BPF_CORE_READ((type *)_at, field);                                    \
		}                                                                                      \
		_value;                                                                                \
	})

/*
 * The 8 bytes at an address. They are read as the first field of a type that every kernel has, and whose
 * first field is a number: the verifier does not let programs compute with a field that is a pointer.
 */
static __always_inline __u64 word_at(__u64 address)
{
	return (__u64)LOOK(struct timespec64, address, tv_sec);
}

#endif
