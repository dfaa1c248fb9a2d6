/*
 * The mounts of a sandbox that has ended. The kernel takes them down where the
 * last one lets go of them, and waits meanwhile until no processor can be
 * looking at them: once for the mount namespace, once for the overlay. That is
 * as much as all the rest that is done at the end. So where nobody can tell it
 * is left to the kernel, which does it within some milliseconds:
 *
 *	let_go_hold	the payload runs: init's end is not that of its mounts
 *	let_go		init was waited for
 *
 * Nobody can tell where nothing was written, and where no file system is kept
 * in use that somebody could unmount, and take its disk away: the mounts are
 * of the one that pid 1's root is on, or of some that have no disk. Else all is
 * gone when let_go returns.
 */
#ifndef SANDLOCK_SANDBOX_LET_GO_H
#define SANDLOCK_SANDBOX_LET_GO_H

struct create;

void let_go_hold(struct create *c);
void let_go(struct create *c);

#endif
