/*
 * What is asked of a host command: `sandlock run [flags] -- CMD`, a profile,
 * or the API. Plain data; everything is owned by the request.
 *
 *	request_new -> request_set / profile_load (later ones override or
 *	append) -> request_check -> plan
 *
 * One table of keys (request_keys) feeds the TOML reader, the writer behind
 * `inspect --toml`, the JSON of `inspect`, and the option table of the command:
 * a key is "section.name" in a profile and has one meaning everywhere. What
 * request_write prints parses back to an equal request.
 */
#ifndef SANDLOCK_SPEC_REQUEST_H
#define SANDLOCK_SPEC_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/disposition.h"
#include "spec/net_rule.h"
#include "spec/spec.h"

struct buf;
struct error;
struct json_out;

/* What keeps a command in: see runtime/sandbox/host_tier.c. */
enum isolation { ISOLATION_AUTO, ISOLATION_NAMESPACES, ISOLATION_NOTIFY };
/* "auto", …; -EINVAL. */
int isolation_parse(const char *text, enum isolation *ret);
const char *isolation_name(enum isolation i);

/* Parts of the confinement that may be missing or left out; bit numbers. */
enum protection {
	PROTECT_FS_REFER,
	PROTECT_FS_TRUNCATE,
	PROTECT_NET_TCP,
	PROTECT_FS_IOCTL_DEV,
	PROTECT_SIGNAL_SCOPE,
	PROTECT_ABSTRACT_UNIX_SCOPE,
	PROTECT_COUNT
};
/* "fs-refer", …; -EINVAL. */
int protection_parse(const char *text, enum protection *ret);
const char *protection_name(enum protection p);
/* The Landlock ABI it takes, and the first Linux that has it: "6.12". */
int protection_abi(enum protection p);
const char *protection_kernel(enum protection p);

struct request_mount {
	char *inside, *host;
	bool read_only;
};

/* A value of -1 (or UINT64_MAX) is "not said". */
struct request {
	/* [program] */
	/* A directory with a config.json, of whose root file system and
	 * limits it is; args, if any, take the place of process.args. */
	char *bundle;
	char *exec;
	struct spec_strings args; /* of [program] args, or CMD and its words */
	struct spec_strings env;  /* "K=V" added */
	char *cwd;
	bool has_user;
	uid_t uid;
	gid_t gid;
	bool clean_env, no_coredump, no_supervisor, explain;
	bool no_control_socket; /* key control_socket, absent means true */
	enum isolation isolation;
	/* [filesystem] */
	struct spec_strings read, write, deny;
	struct request_mount *mounts;
	size_t n_mounts;
	char *chroot;
	/* [config] */
	struct spec_strings workdirs;
	bool no_branch; /* and no workdir, so not the current directory */
	char *storage;
	enum disposition on_exit, on_error;
	bool dry_run;
	/* [network] */
	/* Rules as net_rule_format prints them: spec/net_rule.h */
	struct spec_strings net_allow, net_deny, bind_allow, bind_deny;
	bool port_remap;
	/* Groups, and for extra_deny names too: policy/syscalls.h */
	struct spec_strings extra_allow, extra_deny;
	/* [ask] */
	struct spec_strings ask_exec, ask_open; /* policy/ask.h */
	struct spec_strings ask_connect;	/* as net_allow */
	char *ask_by;				/* NULL: as "socket" */
	uint64_t ask_timeout_ms;		/* 0: default */
	uint32_t ask_limit;			/* 0: default */
	/* [limits] */
	uint64_t memory_bytes; /* 0: none */
	uint64_t quota_bytes;  /* of the branch; 0: none */
	uint32_t processes;    /* 0: default */
	uint32_t open_files;   /* 0: inherit */
	uint64_t timeout_ms;   /* 0: none */
	/* command line and API only */
	char *name;
	uint32_t allow_degraded, disabled; /* 1 << enum protection */
	bool interactive;
	/* System calls that the embedder handles, one for each handler. */
	struct spec_strings handled;
	uint64_t handled_timeout_ms; /* of a call in all of them; 0: default */
	struct request_origin *origins; /* of the values of lists */
	size_t n_origins;
};

/*
 * The table of keys. @key is "section.name" as in a profile; @flag the option
 * of `run` that means the same, without the dashes, or NULL.
 */
enum request_kind {
	REQUEST_STRING,	   /* char * */
	REQUEST_LIST,	   /* struct spec_strings */
	REQUEST_BOOL,	   /* bool */
	REQUEST_NOT,	   /* bool, true where the key says false */
	REQUEST_SIZE,	   /* uint64_t: "512M" */
	REQUEST_COUNT,	   /* uint32_t, at least 1 */
	REQUEST_TIME,	   /* uint64_t ms: "90", "1.5s", "10m" */
	REQUEST_DISPOSE,   /* enum disposition */
	REQUEST_ISOLATION, /* enum isolation */
	REQUEST_ENV,	   /* struct spec_strings of "K=V"; a table in TOML */
	REQUEST_MOUNTS,	   /* "INSIDE:HOST[:ro|:rw]" */
	REQUEST_USER,	   /* "UID:GID" */
	/* struct spec_strings of rules; in TOML numbers are ports */
	REQUEST_NET_ALLOW,
	REQUEST_NET_DENY,
	REQUEST_BIND_ALLOW,
	REQUEST_BIND_DENY,
};

enum request_flag {
	/* Also of a bundle, of which config.json says the rest. */
	REQUEST_OF_BUNDLE = 1 << 0,
	REQUEST_PATH = 1 << 1,	  /* its values are paths, */
	REQUEST_OUTSIDE = 1 << 2, /* of the host, also where there is a chroot
				   */
};

struct request_key {
	const char *key, *flag;
	enum request_kind kind;
	size_t offset; /* in struct request */
	const char *help;
	unsigned int flags; /* a mask of enum request_flag */
};
extern const struct request_key request_keys[];
extern const size_t request_n_keys;
/* Whether an embedder is asked, by its callback. */
bool request_asks_callback(const struct request *r);
/* What stands behind the '=' in a profile: "string", "[string, ...]". */
const char *request_kind_form(enum request_kind kind);
/* NULL if there is none. */
const struct request_key *request_find_key(const char *key);
/* True if there are keys in the section @name. */
bool request_has_section(const char *name);

struct request *request_new(void);
void request_free(struct request *r);
CLEANUP_PTR(struct request, request_free);

/*
 * Sets or appends one value given as text ("limits.memory", "512M"). @where
 * ("--max-memory", "dev.toml:12:3") goes into the message. ERR_USAGE.
 */
int request_set(struct request *r, const char *key, const char *value,
		const char *where, struct error *err);
/* "1048576", "512K", "10m", "2G", "1T": powers of 1024, not 0. -EINVAL, -ERANGE
 * leave @ret undefined. */
int request_parse_size(const char *text, uint64_t *ret);
/* What a value has to be, for messages: "'x' is not %s". */
const char *request_kind_wants(enum request_kind k);

/*
 * The @where of a value of a list ("--fs-deny", "dev.toml:12:3"), as it was
 * given; NULL if there is no such value.
 */
const char *request_origin(const struct request *r, const char *key,
			   const char *value);
/* The same of the last value of a size; the key if there is none. */
const char *request_where(const struct request *r, const char *key);

/* Forgets what was set; an unknown @key is none of ours. */
void request_clear(struct request *r, const char *key);

/* Combinations that cannot be: ERR_USAGE that names both. */
int request_check(const struct request *r, struct error *err);

/* Loads a TOML profile into @r: by name (profile directories) or path.
 * Errors carry file, line, column and the nearest known key. */
int profile_load(struct request *r, const char *name_or_path, bool is_path,
		 struct error *err);
int profile_parse(struct request *r, const char *text, size_t len,
		  const char *what, struct error *err);
/*
 * One stage of a file that has [[stage]] tables: what stands outside of them,
 * then what the table @i says, as in stage.program.exec. *@ret_n is their
 * number. A file without any is a profile, and one stage.
 */
int profile_load_stage(struct request *r, const char *path, size_t i,
		       size_t *ret_n, struct error *err);
/*
 * Names found in the profile directories, sorted; malloc'ed, as is the array.
 * These are $SANDLOCK_CONFIG_DIR/profiles (else $XDG_CONFIG_HOME/sandlock/
 * profiles), /etc/sandlock/profiles and /usr/share/sandlock/profiles; the
 * first that has a name wins.
 */
int profile_list(char ***ret_names, size_t *ret_n, struct error *err);
/* The path a name stands for. */
int profile_path(const char *name, char **ret, struct error *err);

/*
 * Calls @fn for everything that was set, with what request_set takes to set it
 * again. What it returns, if not 0, ends the walk and is returned; -ENOMEM.
 */
int request_each(const struct request *r,
		 int (*fn)(void *data, const char *key, const char *value),
		 void *data);

/*
 * The same request with absolute paths where it has relative ones, and with the
 * workdir that it has without naming one: as it means where @cwd is the current
 * directory. -ENOMEM.
 */
int request_place(const struct request *r, const char *cwd,
		  struct request **ret);

/*
 * Writes what was set as a profile (-EILSEQ where a string is no UTF-8), and as
 * the members of a JSON object: sections with keys. @r must come from
 * request_set.
 */
int request_to_toml(const struct request *r, struct buf *ret);
void request_to_json(const struct request *r, struct json_out *o);

#endif
