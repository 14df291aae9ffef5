/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reading kernel objects that only an address leads to.
 */
#ifndef PARALFETCH_MEMORY_BPF_H
#define PARALFETCH_MEMORY_BPF_H

#include <bpf/bpf_core_read.h>

/* Since 6.2. */
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

/*
 * A field of the object of that type at an address. Where the kernel lets us name the type, this is a
 * load (one that fails reads as 0); before, it takes the call of a helper for each.
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
 * The 8 bytes at an address, as the first field, and a mere number, of a type that every kernel has: what
 * is declared as a pointer could not be computed with.
 */
static __always_inline __u64 word_at(__u64 address)
{
	return (__u64)LOOK(struct timespec64, address, tv_sec);
}

#endif
