/* Completion scripts, written from the tables of opts.h. */
#ifndef SANDLOCK_CMD_COMPLETION_H
#define SANDLOCK_CMD_COMPLETION_H

#include "cmd.h"

void completion_bash(FILE *f);
void completion_zsh(FILE *f);
void completion_fish(FILE *f);

/* "TERM KILL HUP …": what kill(1) is usually asked for. */
extern const char completion_signals[];

/* The words of an OPT_ENUM with @between instead of the bars. */
void completion_words(FILE *f, const char *values, char between);

#endif
