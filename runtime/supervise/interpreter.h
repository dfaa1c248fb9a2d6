/*
 * What the kernel executes instead of a program, by itself and without a call:
 * the interpreter that a script names ("#!"), and the one of an ELF program.
 */
#ifndef SANDLOCK_SUPERVISE_INTERPRETER_H
#define SANDLOCK_SUPERVISE_INTERPRETER_H

#include <limits.h>

/* 1: @ret; 0: there is none, or the kernel will not execute it; or a negative
 * errno. */
int interpreter_read(int fd, char ret[PATH_MAX]);

#endif
