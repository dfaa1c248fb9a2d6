/* A shorter program answers as the one that it was made from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kernel/seccomp_newer.h"
#include "kernel/seccomp_shrink.h"

enum { INSNS_MAX = 16384, NR_MAX = 700 };

static uint32_t load(const struct seccomp_data *d, uint32_t offset)
{
	uint32_t v;

	assert_true(offset % 4 == 0 && offset < sizeof(*d));
	memcpy(&v, (const char *)d + offset, sizeof(v));
	return v;
}

/* All that the kernel would do, and more than is understood. */
static uint32_t run(const struct sock_filter *v, size_t n,
		    const struct seccomp_data *d)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < n; pc++) {
		const struct sock_filter *f = &v[pc];
		bool is = false;

		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			a = load(d, f->k);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= f->k;
			continue;
		case BPF_RET | BPF_K:
			return f->k;
		case BPF_JMP | BPF_JA:
			pc += f->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			is = a == f->k;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			is = a > f->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			is = a >= f->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			is = a & f->k;
			break;
		default:
			fail();
		}
		pc += is ? f->jt : f->jf;
	}
	fail();
	return 0;
}

static uint64_t random_argument(void)
{
	static const uint64_t likely[] = {
		0, 1, 2, 0x7e020000, 0x8000, 40, UINT64_MAX, 0x100000000
	};

	return rand() % 3 ? likely[(size_t)rand() % ARRAY_LEN(likely)]
			  : (uint64_t)rand() << 32 ^ (uint64_t)rand();
}

static void check_number(const struct sock_filter *old, size_t n_old,
			 const struct sock_filter *new, size_t n_new,
			 uint32_t arch, uint32_t nr)
{
	for (int i = 0; i < 20; i++) {
		struct seccomp_data d = { .nr = (int)nr, .arch = arch };

		for (size_t j = 0; j < ARRAY_LEN(d.args); j++)
			d.args[j] = random_argument();
		assert_int_equal(run(new, n_new, &d), run(old, n_old, &d));
	}
}

static void check_all(const struct sock_filter *old, size_t n_old,
		      const struct sock_filter *new, size_t n_new)
{
	static const uint32_t archs[] = { AUDIT_ARCH_X86_64,
					  AUDIT_ARCH_I386,
					  AUDIT_ARCH_AARCH64,
					  AUDIT_ARCH_ARM,
					  0,
					  12345 };
	static const uint32_t edges[] = { 0x3fffffff, 0x80000000, UINT32_MAX,
					  UINT32_MAX - 1 };

	for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
		for (uint32_t nr = 0; nr < NR_MAX; nr++) {
			check_number(old, n_old, new, n_new, archs[i], nr);
			check_number(old, n_old, new, n_new, archs[i],
				     nr | 0x40000000);
		}
		for (size_t j = 0; j < ARRAY_LEN(edges); j++)
			check_number(old, n_old, new, n_new, archs[i],
				     edges[j]);
	}
}

static size_t export(scmp_filter_ctx ctx, struct sock_filter *ret)
{
	int fd = memfd_create("bpf", MFD_CLOEXEC);
	ssize_t n;

	assert_true(fd >= 0);
	assert_int_equal(seccomp_export_bpf(ctx, fd), 0);
	n = pread(fd, ret, INSNS_MAX * sizeof(*ret), 0);
	assert_true(n > 0);
	(void)close(fd);
	return (size_t)n / sizeof(*ret);
}

/* Names that are on all of them, with and without arguments. */
static void add_rules(scmp_filter_ctx ctx, uint32_t action, int density)
{
	const struct scmp_arg_cmp equal = SCMP_A0(SCMP_CMP_EQ, 40);
	const struct scmp_arg_cmp mask =
		SCMP_A1(SCMP_CMP_MASKED_EQ, 0x7e020000, 0);
	const struct scmp_arg_cmp above = SCMP_A2(SCMP_CMP_GE, 0x8000);

	for (int nr = 0; nr < 450; nr++) {
		if (rand() % 100 >= density)
			continue;
		/* Refused where it says the same as the default. */
		(void)seccomp_rule_add(ctx, action, nr, 0);
	}
	(void)seccomp_rule_add(ctx, action, SCMP_SYS(socket), 1, equal);
	(void)seccomp_rule_add(ctx, action, SCMP_SYS(clone), 1, mask);
	(void)seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOTTY), SCMP_SYS(ioctl), 2,
			       mask, above);
	(void)seccomp_rule_add(ctx, SCMP_ACT_NOTIFY, SCMP_SYS(rename), 0);
}

static void check_profile(uint32_t dflt, uint32_t action, int density,
			  uint32_t optimize, bool newer)
{
	struct sock_filter *old = calloc(INSNS_MAX, sizeof(*old));
	void *new = calloc(INSNS_MAX, sizeof(*old));
	const struct seccomp_newest newest[] = { { SCMP_ARCH_X86_64, 440 },
						 { SCMP_ARCH_X86, 441 } };
	scmp_filter_ctx ctx = seccomp_init(dflt);
	size_t n_old, n_new;

	assert_non_null(ctx);
	(void)seccomp_arch_add(ctx, SCMP_ARCH_X86_64);
	(void)seccomp_arch_add(ctx, SCMP_ARCH_X86);
	(void)seccomp_arch_add(ctx, SCMP_ARCH_X32);
	(void)seccomp_arch_add(ctx, SCMP_ARCH_AARCH64);
	(void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, optimize);
	add_rules(ctx, action, density);
	n_new = export(ctx, new);
	if (newer)
		assert_int_equal(seccomp_answer_newer(newest, ARRAY_LEN(newest),
						      &new, &n_new),
				 0);
	n_old = n_new;
	memcpy(old, new, n_old * sizeof(*old));
	assert_int_equal(seccomp_shrink(new, &n_new), 0);
	/* Random ones: those of people have longer runs. */
	assert_true(density < 80 ? n_new <= n_old : n_new < n_old * 2 / 3);
	check_all(old, n_old, new, n_new);
	seccomp_release(ctx);
	free(old);
	free(new);
}

static void profiles_get_shorter_and_answer_alike(void **state)
{
	static const int densities[] = { 2, 50, 80, 97 };

	for (size_t i = 0; i < ARRAY_LEN(densities); i++) {
		check_profile(SCMP_ACT_ERRNO(EPERM), SCMP_ACT_ALLOW,
			      densities[i], 2, true);
		check_profile(SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM),
			      densities[i], 1, false);
	}
	check_profile(SCMP_ACT_KILL_PROCESS, SCMP_ACT_LOG, 60, 2, false);
}

static void what_is_not_understood_is_left_alone(void **state)
{
	struct sock_filter masked[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 1),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	/* The number, or an argument, whichever way it came. */
	struct sock_filter mixed[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 1),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 7, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_filter stored[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_STMT(BPF_ST, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_filter before[ARRAY_LEN(mixed)];
	struct {
		struct sock_filter *v;
		size_t n;
	} all[] = { { masked, ARRAY_LEN(masked) },
		    { mixed, ARRAY_LEN(mixed) },
		    { stored, ARRAY_LEN(stored) } };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		size_t n = all[i].n;

		memcpy(before, all[i].v, n * sizeof(*before));
		assert_int_equal(seccomp_shrink(all[i].v, &n), 0);
		assert_int_equal(n, all[i].n);
		assert_memory_equal(all[i].v, before, n * sizeof(*before));
	}
}

static void an_answer_for_everybody_is_one(void **state)
{
	struct sock_filter v[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 5, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct seccomp_data d = { .nr = 1 };
	size_t n = ARRAY_LEN(v);

	assert_int_equal(seccomp_shrink(v, &n), 0);
	assert_true(n < ARRAY_LEN(v));
	assert_int_equal(run(v, n, &d), SECCOMP_RET_ALLOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(profiles_get_shorter_and_answer_alike),
		cmocka_unit_test(what_is_not_understood_is_left_alone),
		cmocka_unit_test(an_answer_for_everybody_is_one),
	};

	srand(1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
