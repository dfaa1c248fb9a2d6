/*
 * Options and verbs as data. Two tables, `opt_table` (opts_table.c) and
 * `verb_table` (main.c), feed the parser, the help of every verb, the
 * completions and the OPTIONS part of the man pages: a row is written once.
 *
 * The parser is strict: long options are never abbreviated, both --opt=value
 * and --opt value are accepted, short flags cluster (-dt), the value of a short
 * option may stick to it (-bDIR), and an unknown option is one line with the
 * nearest match.
 */
#ifndef SANDLOCK_CMD_OPTS_H
#define SANDLOCK_CMD_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct buf;
struct ctx;
struct sandlock_error;

enum verb_id {
	VERB_GLOBAL, /* options before the verb */
	VERB_CREATE,
	VERB_START,
	VERB_RUN,
	VERB_EXEC,
	VERB_KILL,
	VERB_DELETE,
	VERB_STATE,
	VERB_LIST,
	VERB_PS,
	VERB_PAUSE,
	VERB_RESUME,
	VERB_UPDATE,
	VERB_EVENTS,
	VERB_SPEC,
	VERB_FEATURES,
	VERB_INSPECT,
	VERB_PORTS,
	VERB_LOGS,
	VERB_WHY,
	VERB_APPROVALS,
	VERB_APPROVE,
	VERB_DENY,
	VERB_CHECK,
	VERB_DIFF,
	VERB_COMMIT,
	VERB_ABORT,
	VERB_BRANCHES,
	VERB_RECOVER,
	VERB_PROFILE,
	VERB_COMPLETION,
	VERB_VERSION,
	VERB_HELP,
	VERB_COUNT,
};

#define V(name) (UINT64_C(1) << VERB_##name)

enum opt_kind {
	OPT_FLAG,
	OPT_VALUE,  /* the last one holds */
	OPT_LIST,   /* may be repeated */
	OPT_NUMBER, /* a decimal number, -1 where it means "no limit" */
	OPT_ENUM,   /* one word of .values */
};

enum opt_flag {
	OPT_HIDDEN = 1 << 0,	/* accepted, in no help and no completion */
	OPT_NEGATABLE = 1 << 1, /* --no-NAME too */
};

/* What a shell offers for a value or an operand. */
enum complete {
	COMPLETE_NONE,
	COMPLETE_FILE,
	COMPLETE_DIR,
	COMPLETE_SANDBOX,
	COMPLETE_BRANCH,
	COMPLETE_SIGNAL, /* after the name of a sandbox */
	COMPLETE_SHELL,
	COMPLETE_VERB,
	COMPLETE_PROFILE, /* what `profile` can do */
};

struct opt {
	uint64_t verbs; /* V(CREATE) | V(RUN) … */
	const char *name;
	char letter; /* 0: none */
	enum opt_kind kind;
	const char *arg;    /* "DIR"; NULL for a flag */
	const char *values; /* OPT_ENUM: "table|json" */
	enum complete complete;
	unsigned int flags;
	const char *help;
	const char *alias; /* another name for the same, or NULL */
};

extern const struct opt opt_table[];
extern const size_t opt_table_len;

enum verb_group {
	GROUP_LIFECYCLE,
	GROUP_BRANCH,
	GROUP_APPROVALS,
	GROUP_OTHER,
	GROUP_COUNT,
};

enum verb_flag {
	/* Options end at the first operand: the rest is a command line. */
	VERB_STOPS = 1 << 0,
	/* run: stops only where no -b says that the operand is a name. */
	VERB_STOPS_UNLESS_BUNDLE = 1 << 1,
	/* Usage errors and failures have the exit statuses of run and exec. */
	VERB_RUNS = 1 << 2,
	/* The name may be left out, but never by an engine. */
	VERB_ENGINE_NEEDS_NAME = 1 << 3,
};

struct args;

struct verb {
	enum verb_id id;
	const char *name;
	const char *summary; /* one line, lower case */
	enum verb_group group;
	const char *operands; /* as in the usage line; one line for each way */
	int min, max;	      /* number of operands; max -1: any */
	unsigned int flags;
	enum complete complete; /* of the first operand, or all of them */
	const char *about;	/* a paragraph for --help */
	const char *examples;	/* lines without the indent */
	const char *exit_status;
	int (*run)(struct ctx *ctx, struct args *args);
	const char *alias; /* as of an option */
};

extern const struct verb verb_table[];
extern const size_t verb_table_len;

const struct verb *verb_find(const char *name);

/* What was on the command line. Strings are borrowed from argv. */
struct args {
	const struct verb *verb;
	struct arg_value {
		const struct opt *opt;
		char as[32];	   /* how it was typed: "--max-disk", "-m" */
		const char *value; /* NULL: a flag; its --no- form sets .no */
		bool no;
	} * values;
	size_t n_values;
	const char **operands; /* NULL-terminated */
	size_t n_operands;
	bool dashes; /* a "--" stood before the operands */
};

void args_done(struct args *a);

/*
 * Parses what stands before the verb and sets *@ret_used to the number of
 * words it took. ERR_USAGE.
 */
int args_parse_globals(char *const *argv, struct args *ret, size_t *ret_used,
		       struct sandlock_error *err);

/*
 * Parses what stands after the verb, which is argv[0], and checks the number of
 * operands unless --help is asked for. @engine: as sandlock-oci, where `run`
 * always takes a name. ERR_USAGE.
 */
int args_parse(const struct verb *verb, bool engine, char *const *argv,
	       struct args *ret, struct sandlock_error *err);

/*
 * The value of an option, the last one given, or NULL. @name must be one of the
 * verb's in the table, here and below.
 */
const char *args_str(const struct args *a, const char *name);
/* The first option given that is one of @n names, or NULL. */
const struct arg_value *args_first_of(const struct args *a,
				      const char *const *names, size_t n);
/* How the option was typed, for messages; NULL if it was not. */
const char *args_as(const struct args *a, const char *name);
bool args_has(const struct args *a, const char *name);
/* True if an option that takes a value was given. */
bool args_has_value(const struct args *a, const char *name);
/* 1 given, 0 negated, -1 not given. */
int args_flag(const struct args *a, const char *name);
/* The value of an OPT_NUMBER, or @dflt. */
int64_t args_number(const struct args *a, const char *name, int64_t dflt);
/* Values of an OPT_LIST, NULL-terminated and malloc'ed; NULL if there are
 * none, with *@ret_n = 0. -ENOMEM. */
int args_list(const struct args *a, const char *name, const char ***ret,
	      size_t *ret_n);
/* --format json or --json. */
bool args_json(const struct args *a);

/* The option of @verb named by a whole long name or a letter, or NULL. */
const struct opt *opt_find_long(enum verb_id verb, const char *name, size_t n);
const struct opt *opt_find_letter(enum verb_id verb, char letter);
static inline bool opt_is_of(const struct opt *o, enum verb_id verb)
{
	return o->verbs & (UINT64_C(1) << verb);
}

#endif
