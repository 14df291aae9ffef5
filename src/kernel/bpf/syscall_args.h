/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A system call's number and arguments, as they still are in the saved registers when the call
 * returns. Only the first argument shares its register with the result on some architectures; these
 * keep a copy of it.
 */
#ifndef PARALFETCH_SYSCALL_ARGS_H
#define PARALFETCH_SYSCALL_ARGS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

#if defined(__TARGET_ARCH_x86)

static __always_inline __s64 syscall_number(struct pt_regs *regs)
{
	return regs->orig_ax;
}

/* `n` counts from 1. */
static __always_inline __u64 syscall_arg(struct pt_regs *regs, __u8 n)
{
	switch (n) {
	case 1: return regs->di;
	case 2: return regs->si;
	case 3: return regs->dx;
	case 4: return regs->r10;
	case 5: return regs->r8;
	}
	return 0;
}

/* A call of the 32-bit interface: it has numbers of its own. */
static __always_inline bool syscall_is_compat(struct task_struct *task)
{
	const __u32 TS_COMPAT = 2;

	return task->thread_info.status & TS_COMPAT;
}

#elif defined(__TARGET_ARCH_arm64)

static __always_inline __s64 syscall_number(struct pt_regs *regs)
{
	return regs->syscallno;
}

static __always_inline __u64 syscall_arg(struct pt_regs *regs, __u8 n)
{
	switch (n) {
	case 1: return regs->orig_x0;
	case 2: return regs->regs[1];
	case 3: return regs->regs[2];
	case 4: return regs->regs[3];
	case 5: return regs->regs[4];
	}
	return 0;
}

static __always_inline bool syscall_is_compat(struct task_struct *task)
{
	const __u64 TIF_32BIT = 1UL << 22;

	return task->thread_info.flags & TIF_32BIT;
}

#elif defined(__TARGET_ARCH_riscv)

static __always_inline __s64 syscall_number(struct pt_regs *regs)
{
	return regs->a7;
}

static __always_inline __u64 syscall_arg(struct pt_regs *regs, __u8 n)
{
	switch (n) {
	case 1: return regs->orig_a0;
	case 2: return regs->a1;
	case 3: return regs->a2;
	case 4: return regs->a3;
	case 5: return regs->a4;
	}
	return 0;
}

static __always_inline bool syscall_is_compat(struct task_struct *task)
{
	return false;
}

#else
#error "say here where this architecture keeps a system call's number and arguments"
#endif

#endif
