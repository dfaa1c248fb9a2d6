/*
 * For the sandlock program alone: the processes that it is by another argv[0].
 */
#ifndef LIBSANDLOCK_PROGRAM_H
#define LIBSANDLOCK_PROGRAM_H

#include "base.h"

SANDLOCK_BEGIN

/*
 * Entry of the supervisor process; the program calls it first thing when its
 * argv[0] is "sandlock-supervisor". Returns the exit status.
 */
int sandlock_supervisor_main(int argc, char **argv);

/*
 * Entry of the waiter process; the program calls it first thing when its
 * argv[0] is "sandlock-waiter". Returns the exit status.
 */
int sandlock_waiter_main(int argc, char **argv);

SANDLOCK_END

#endif
