#include "kernel/seccomp_newer.h"

#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/bpf.h"

enum {
	SECTION_MAX = 7,
	X32_BIT = 0x40000000, /* of a number, on the audit arch of x86-64 */
};

/*
 * What is in the accumulator is the architecture, until a section is entered;
 * a section returns, or jumps over all that follow.
 */
static size_t add_section(struct sock_filter *f,
			  const struct seccomp_newest *newest)
{
	const uint8_t split = newest->arch == SCMP_ARCH_X86_64;
	size_t n = 0;

	f[n++] = bpf_if(BPF_JEQ, newest->arch, 0, (uint8_t)(4 + split));
	f[n++] = bpf_load(offsetof(struct seccomp_data, nr));
	if (split)
		f[n++] = bpf_if(BPF_JGE, X32_BIT, 2, 0);
	f[n++] = bpf_if(BPF_JGT, newest->nr, 0, 1);
	f[n++] = bpf_return(SECCOMP_RET_ERRNO | (uint32_t)ENOSYS);
	f[n++] = bpf_skip(0);
	return n;
}

int seccomp_answer_newer(const struct seccomp_newest *v, size_t n, void **insns,
			 size_t *n_insns)
{
	size_t size = sizeof(struct sock_filter), len = 0;
	struct sock_filter *f = calloc(1 + n * SECTION_MAX + *n_insns, size);

	if (!f)
		return -ENOMEM;
	f[len++] = bpf_load(offsetof(struct seccomp_data, arch));
	for (size_t i = 0; i < n; i++)
		if (v[i].arch != SCMP_ARCH_X32)
			len += add_section(f + len, &v[i]);
	for (size_t i = 0; i < len; i++)
		if (f[i].code == (BPF_JMP | BPF_JA))
			f[i].k = (uint32_t)(len - i - 1);
	memcpy(f + len, *insns, *n_insns * size);
	free(*insns);
	*insns = f;
	*n_insns += len;
	return 0;
}
