/*
 * The registers of a task that ptrace(2) holds, by what they mean to a system
 * call. Known for x86-64, 32-bit programs too, arm64 and 64-bit RISC-V;
 * elsewhere there is no HAVE_REGISTERS and nothing of this. Called by the
 * tracer's thread.
 *
 * A call that is to be restarted differs where the task stops on its way out
 * of it: x86-64 still has the error in its result and goes back later, the
 * others have gone back to the instruction already.
 */
#ifndef SANDLOCK_KERNEL_REGISTERS_H
#define SANDLOCK_KERNEL_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>
#ifdef __riscv
#include <asm/ptrace.h>
#endif

#if defined(__x86_64__) || defined(__aarch64__) || \
	(defined(__riscv) && __riscv_xlen == 64)
#define HAVE_REGISTERS 1
#endif

#ifdef HAVE_REGISTERS

struct registers {
	struct user_regs_struct user;
};

/* 0 or a negative errno; EOPNOTSUPP of a 32-bit program on arm64. */
int registers_read(pid_t tid, struct registers *ret);
int registers_write(pid_t tid, const struct registers *r);

/* Is it about to make call @nr again, which was answered with -@error? */
bool registers_will_restart(pid_t tid, const struct registers *r, int nr,
			    int error);

uint64_t registers_argument(const struct registers *r, unsigned int n);
void registers_set_argument(struct registers *r, unsigned int n,
			    uint64_t value);
uint64_t registers_stack(const struct registers *r);

/* What it makes instead of the call that it is about to make again. */
void registers_set_call(struct registers *r, int nr);
/* It does not make it again, which has failed with -@error. */
void registers_fail(struct registers *r, int error);
/* From where it stands behind a call: makes call @nr with one argument. */
void registers_make_call(struct registers *r, int nr, uint64_t argument);
/* Behind a call: what it had asked for, as @was, but its result. */
void registers_put_back(struct registers *r, const struct registers *was);

#endif
#endif
