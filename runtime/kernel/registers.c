#include "kernel/registers.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

/* ----------------------------------------------------------------- x86-64 --
 */

#if defined(__x86_64__)

enum { SYSCALL_SIZE = 2 }; /* of the instruction, also where it is 32-bit */

int registers_read(pid_t tid, struct registers *ret)
{
	return ptrace(PTRACE_GETREGS, tid, NULL, &ret->user) < 0 ? -errno : 0;
}

int registers_write(pid_t tid, const struct registers *r)
{
	return ptrace(PTRACE_SETREGS, tid, NULL, &r->user) < 0 ? -errno : 0;
}

bool registers_will_restart(pid_t tid, const struct registers *r, int nr,
			    int error)
{
	(void)tid;
	return r->user.orig_rax == (unsigned long long)nr &&
	       (int64_t)r->user.rax == -error;
}

static unsigned long long *argument(struct registers *r, unsigned int n)
{
	switch (n) {
	case 0:
		return &r->user.rdi;
	case 1:
		return &r->user.rsi;
	case 2:
		return &r->user.rdx;
	default:
		return &r->user.r10;
	}
}

uint64_t registers_stack(const struct registers *r)
{
	return r->user.rsp;
}

void registers_set_call(struct registers *r, int nr)
{
	r->user.orig_rax = (unsigned long long)nr;
}

void registers_fail(struct registers *r, int error)
{
	r->user.rax = (unsigned long long)(int64_t)-error;
	r->user.orig_rax = (unsigned long long)-1;
}

void registers_make_call(struct registers *r, int nr, uint64_t arg)
{
	r->user.rip -= SYSCALL_SIZE;
	r->user.orig_rax = (unsigned long long)-1;
	r->user.rax = (unsigned long long)nr;
	r->user.rdi = arg;
}

void registers_put_back(struct registers *r, const struct registers *was)
{
	r->user.rdi = was->user.rdi;
	r->user.rsi = was->user.rsi;
	r->user.rdx = was->user.rdx;
	r->user.r10 = was->user.r10;
}

/* -------------------------------------------------------- arm64, RISC-V -- */

#elif defined(HAVE_REGISTERS)

enum { SYSCALL_SIZE = 4 };

#ifdef __aarch64__

static const uint32_t call_instruction = 0xd4000001; /* svc #0 */

static unsigned long long *argument(struct registers *r, unsigned int n)
{
	return &r->user.regs[n < 3 ? n : 3];
}

static unsigned long long *number(struct registers *r)
{
	return &r->user.regs[8];
}

#else

static const uint32_t call_instruction = 0x00000073; /* ecall */

static unsigned long *argument(struct registers *r, unsigned int n)
{
	switch (n) {
	case 0:
		return &r->user.a0;
	case 1:
		return &r->user.a1;
	case 2:
		return &r->user.a2;
	default:
		return &r->user.a3;
	}
}

static unsigned long *number(struct registers *r)
{
	return &r->user.a7;
}

#endif

int registers_read(pid_t tid, struct registers *ret)
{
	struct iovec v = { &ret->user, sizeof(ret->user) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &v) < 0)
		return -errno;
	return v.iov_len == sizeof(ret->user) ? 0 : -EOPNOTSUPP;
}

int registers_write(pid_t tid, const struct registers *r)
{
	struct registers copy = *r;
	struct iovec v = { &copy.user, sizeof(copy.user) };

	return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &v) < 0 ? -errno : 0;
}

bool registers_will_restart(pid_t tid, const struct registers *r, int nr,
			    int error)
{
	struct registers copy = *r;
	long word;

	(void)error;
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, tid, r->user.pc, NULL);
	return !errno && (uint32_t)word == call_instruction &&
	       (long)*number(&copy) == nr;
}

uint64_t registers_stack(const struct registers *r)
{
	return r->user.sp;
}

void registers_set_call(struct registers *r, int nr)
{
	*number(r) = (unsigned int)nr;
}

void registers_fail(struct registers *r, int error)
{
	r->user.pc += SYSCALL_SIZE;
	registers_set_argument(r, 0, (uint64_t)(int64_t)-error);
}

void registers_make_call(struct registers *r, int nr, uint64_t arg)
{
	r->user.pc -= SYSCALL_SIZE;
	registers_set_call(r, nr);
	registers_set_argument(r, 0, arg);
}

/* The first argument's register has the result. */
void registers_put_back(struct registers *r, const struct registers *was)
{
	struct registers copy = *was;

	for (unsigned int i = 1; i < 4; i++)
		*argument(r, i) = *argument(&copy, i);
	*number(r) = *number(&copy);
}

#endif

#ifdef HAVE_REGISTERS

uint64_t registers_argument(const struct registers *r, unsigned int n)
{
	struct registers copy = *r;

	return *argument(&copy, n);
}

void registers_set_argument(struct registers *r, unsigned int n, uint64_t value)
{
	*argument(r, n) = value;
}

#endif
