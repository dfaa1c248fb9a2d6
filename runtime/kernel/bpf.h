/* Instructions of a seccomp filter (classic BPF), as values. */
#ifndef SANDLOCK_KERNEL_BPF_H
#define SANDLOCK_KERNEL_BPF_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

/* A word of struct seccomp_data into the accumulator. */
static inline struct sock_filter bpf_load(size_t offset)
{
	return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					    (uint32_t)offset);
}

/* @test: BPF_JEQ, BPF_JGT, BPF_JGE; how many to skip if it holds, if not. */
static inline struct sock_filter bpf_if(uint16_t test, uint32_t value,
					uint8_t skip, uint8_t skip_else)
{
	return (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, skip,
					    skip_else);
}

static inline struct sock_filter bpf_skip(uint32_t n)
{
	return (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, n);
}

/* SECCOMP_RET_... */
static inline struct sock_filter bpf_return(uint32_t what)
{
	return (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what);
}

#endif
