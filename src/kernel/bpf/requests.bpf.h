/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Read requests, seen where they are made (block_getrq), in the context of the task that wants them.
 * Bios that join an existing request add their bytes to it.
 *
 * Who includes this defines count_read().
 */
#ifndef PARALFETCH_REQUESTS_BPF_H
#define PARALFETCH_REQUESTS_BPF_H

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0

/* The current task makes so many requests, of so many bytes more. */
static void count_read(__u64 requests, __u32 bytes);

static __always_inline int count_bio(struct bio *bio, __u64 requests)
{
	if ((bio->bi_opf & REQ_OP_MASK) == REQ_OP_READ)
		count_read(requests, bio->bi_iter.bi_size);
	return 0;
}

SEC("tp_btf/block_getrq")
int BPF_PROG(request_made, struct bio *bio)
{
	return count_bio(bio, 1);
}

SEC("tp_btf/block_bio_backmerge")
int BPF_PROG(bio_merged_behind, struct bio *bio)
{
	return count_bio(bio, 0);
}

SEC("tp_btf/block_bio_frontmerge")
int BPF_PROG(bio_merged_before, struct bio *bio)
{
	return count_bio(bio, 0);
}

#endif
