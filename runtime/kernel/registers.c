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

/* ------------------------------------------------------------------ arm64 --
 */

#elif defined(__aarch64__)

enum {
	SYSCALL_SIZE = 4,
	NUMBER = 8, /* the register that has it */
};

static const uint32_t svc_instruction = 0xd4000001; /* svc #0 */

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
	long word;

	(void)error;
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, tid, r->user.pc, NULL);
	return !errno && (uint32_t)word == svc_instruction &&
	       r->user.regs[NUMBER] == (unsigned long long)nr;
}

static unsigned long long *argument(struct registers *r, unsigned int n)
{
	return &r->user.regs[n < 3 ? n : 3];
}

uint64_t registers_stack(const struct registers *r)
{
	return r->user.sp;
}

void registers_set_call(struct registers *r, int nr)
{
	r->user.regs[NUMBER] = (unsigned long long)nr;
}

void registers_fail(struct registers *r, int error)
{
	r->user.pc += SYSCALL_SIZE;
	r->user.regs[0] = (unsigned long long)(int64_t)-error;
}

void registers_make_call(struct registers *r, int nr, uint64_t arg)
{
	r->user.pc -= SYSCALL_SIZE;
	r->user.regs[NUMBER] = (unsigned long long)nr;
	r->user.regs[0] = arg;
}

/* The first argument's register has the result. */
void registers_put_back(struct registers *r, const struct registers *was)
{
	for (int i = 1; i < 4; i++)
		r->user.regs[i] = was->user.regs[i];
	r->user.regs[NUMBER] = was->user.regs[NUMBER];
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
