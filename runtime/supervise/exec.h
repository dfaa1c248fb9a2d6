/*
 * Programs that somebody has to be asked about before they are executed.
 *
 *	capture path, argv and file, running -> asked about -> allowed
 *	-> freeze, read again, equal? -> the kernel goes on -> thaw
 *
 * Every exec takes the last line, also what no rule matches: else a thread
 * could put another program there once it was looked at. It is denied (EPERM)
 * if anything differs, if what the kernel will read lies in memory that stays
 * writable to others, or if another process than a parent in vfork shares the
 * address space.
 */
#ifndef SANDLOCK_SUPERVISE_EXEC_H
#define SANDLOCK_SUPERVISE_EXEC_H

#include <sys/types.h>

#include "supervise/ask.h"
#include "supervise/freeze.h"

struct callers;
struct spec_strings;

/* Borrowed by the rows; outlives the supervisor. */
struct exec_asker {
	const struct asker *asker;
	const struct spec_strings *rules; /* policy/ask.h */
	struct freezer *freezer;
	struct callers *callers; /* to be told; or NULL */
	/* Our launcher, whose exec nobody is asked about. */
	dev_t launcher_dev;
	ino_t launcher_ino;
	/* Where there is none: the process whose first exec is ours. */
	_Atomic pid_t first_pid;
};

struct redirect;

/*
 * Before an exec is made again with another path and words (@to, whose pass
 * this sets): it comes back as the one that was allowed, or is EPERM. -EPERM
 * where what was allowed has changed since.
 */
int exec_pass(struct call *c, struct redirect *to);

enum { EXEC_ROWS = 2 };
size_t exec_rows(struct exec_asker *a, struct handler ret[EXEC_ROWS]);

#endif
