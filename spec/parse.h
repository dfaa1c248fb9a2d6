/*
 * Reading JSON into structs by tables. A struct shape says which member goes
 * to which place of a struct, of what type and within which bounds; the same
 * rows free the struct, so that no member can be forgotten.
 *
 *	shape_read(&at, &shape, obj) -> ... -> shape_done(&shape, obj)
 *
 * A member that is absent or null leaves its place zero. Members without a row
 * are ignored, as the specification wants; one that a person wrote for this
 * alone is warned of. Private to spec/.
 */
#ifndef SANDLOCK_SPEC_PARSE_H
#define SANDLOCK_SPEC_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "spec/spec.h"

struct error;
struct log_sink;

struct parse {
	const char *what; /* "config.json", for messages */
	const struct log_sink *log;
	struct error *err;
	bool warn_unknown;
};

/* A value and where it stands in the document. Lives on the stack. */
struct at {
	const struct parse *p;
	const struct at *up; /* NULL: the document */
	const char *key;     /* NULL: an element of an array */
	size_t index;
	const struct json *v; /* NULL: absent, only for messages */
};

/* ERR_BUNDLE with "config.json: a.b[1]: " in front. */
int at_fail(const struct at *at, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The same for the member @key of @at. */
int at_fail_member(const struct at *at, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int at_no_memory(const struct at *at);
void at_warn(const struct at *at, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Text from the document for a message: escaped and cut. */
enum { SHOWN_MAX = 192 };
struct shown {
	char text[SHOWN_MAX];
};
#define SHOWN(s) (shown(s).text)
struct shown shown(const char *s);

/* A table of names and what they stand for. */
struct name {
	const char *name;
	uint64_t value;
};
struct names {
	const char *what; /* "rlimit", for messages */
	const struct name *v;
	size_t n;
};
#define NAMES(what_, rows_)                             \
	{                                               \
		.what = what_, .v = rows_,              \
		.n = sizeof(rows_) / sizeof((rows_)[0]) \
	}
/* The name of the first row with @value, or NULL. */
const char *names_of(const struct names *t, uint64_t value);

enum field_kind {
	FIELD_BOOL,
	FIELD_INT,   /* signed, @size bytes, within @min and @max */
	FIELD_UINT,  /* unsigned, @size bytes, at least @min, at most @max */
	FIELD_STR,   /* char * */
	FIELD_STRS,  /* struct spec_strings */
	FIELD_IDS,   /* uint32_t *, @count: size_t; at most @max elements */
	FIELD_ENUM,  /* one of @names, @size bytes */
	FIELD_FLAGS, /* an array of @names, or'ed, @size bytes */
	FIELD_OBJ,   /* a struct in place, by @shape */
	FIELD_NEW,   /* a pointer to a struct, by @shape */
	FIELD_ARRAY, /* pointer to structs, @count, @shape, at most @max */
	FIELD_MAP,   /* the same from an object; each begins with char *key */
	FIELD_CALL,  /* @check does all of it */
};

enum field_flag {
	FIELD_REQUIRED = 1,
	STR_NONEMPTY = 2,    /* also for the elements of FIELD_STRS */
	STR_ABSOLUTE = 4,    /* also for the elements of FIELD_STRS */
	STR_MAY_BE_NONE = 8, /* "" means that it is not given */
};

struct field {
	const char *key; /* NULL: the value itself, not a member of it */
	enum field_kind kind;
	unsigned int flags;
	size_t offset, size;
	size_t has;   /* offset of a bool + 1, 0: none */
	size_t count; /* offset of the number of elements */
	int64_t min;
	uint64_t max; /* 0 for FIELD_UINT: all that fits */
	const struct names *names;
	const struct shape *shape;
	/* After the value was stored; @obj is the whole struct. */
	int (*check)(const struct at *at, void *obj);
};

struct shape {
	const struct field *fields;
	size_t n;
	size_t size; /* of one struct, where there are arrays of it */
	/* After all rows. */
	int (*check)(const struct at *at, void *obj);
	/* Frees what no row owns. */
	void (*done)(void *obj);
};

#define MEMBER(type, m) \
	.offset = offsetof(type, m), .size = sizeof(((type *)0)->m)
#define HAS(type, m) .has = offsetof(type, m) + 1
#define COUNT(type, m) .count = offsetof(type, m)
#define SHAPE(type, rows_)                                        \
	.fields = rows_, .n = sizeof(rows_) / sizeof((rows_)[0]), \
	.size = sizeof(type)

/* On failure @obj is half filled and still has to be done. */
int shape_read(const struct at *at, const struct shape *s, void *obj);
void shape_done(const struct shape *s, void *obj);

/* Getters for FIELD_CALL rows. */
int at_expect(const struct at *at, enum json_type type);
/* The string, borrowed. */
int at_string(const struct at *at, unsigned int flags, const char **ret);
/* True if there is such a member and it is not null. */
bool at_has(const struct at *at, const char *key);
/* Iterates over array elements and object members of at->v. */
struct at at_item(const struct at *at, size_t i);

/* Shared shapes and tables. */
extern const struct shape idmap_extent_shape;
extern const struct shape process_shape, resources_shape, seccomp_shape,
	hooks_shape, mount_shape, linux_shape, pair_shape;
extern const struct names profile_action_names, profile_operator_names,
	profile_arch_names, profile_flag_names, hook_names,
	memory_policy_mode_names, memory_policy_flag_names;

/* What concerns more than one part of the document. */
int check_id_maps(const struct at *at, struct spec *s);
int check_sysctls(const struct at *at, struct spec *s);
int finish_mounts(const struct at *at, struct spec *s);
int read_branch(const struct at *at, struct spec *s);
/* True if the container has a namespace that is not ours. */
bool ns_is_private(const struct spec *s, enum spec_ns ns);
/* Environment: every element is NAME=VALUE. */
int check_variables(const struct at *at, const struct spec_strings *env);

/* 0, or why the list of extents is no valid map. */
int check_extents(const struct at *at, const struct idmap_list *l);

/* Mount options, in the order of `features`. */
size_t mount_option_count(void);
const char *mount_option_name(size_t i);
int mount_option_apply(const struct at *at, const char *option,
		       struct spec_mount *m, struct buf *data);

#endif
