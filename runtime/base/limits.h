/* Everything that a stranger can make grow has its limit here. */
#ifndef SANDLOCK_BASE_LIMITS_H
#define SANDLOCK_BASE_LIMITS_H

enum {
	LIMIT_NAME = 255,		      /* name of a sandbox or branch */
	LIMIT_CONFIG_BYTES = 4 * 1024 * 1024, /* config.json, process.json */
	LIMIT_CONFIG_DEPTH = 64,
	LIMIT_CONFIG_VALUES = 400 * 1000,
	LIMIT_STATE_BYTES = 8 * 1024 * 1024, /* state.json */
	LIMIT_META_BYTES = 64 * 1024 * 1024, /* meta.json of a branch */
	LIMIT_META_VALUES = 8 * 1000 * 1000,
	LIMIT_ID_MAPPINGS = 340, /* UID_GID_MAP_MAX_EXTENTS */
	LIMIT_MOUNTS = 4096,
	LIMIT_MOUNTINFO_BYTES = 16 * 1024 * 1024,
	LIMIT_DEVICES = 1024,
	LIMIT_HOOKS = 256,
	LIMIT_SYSCALL_RULES = 4096,
	LIMIT_PRESERVE_FDS = 1024,
	LIMIT_TOML_BYTES = 1024 * 1024, /* a profile */
	LIMIT_TOML_DEPTH = 32,
	LIMIT_TOML_VALUES = 10 * 1000,
	LIMIT_REPORT_BYTES = 256 * 1024 * 1024, /* changes for an embedder */
	LIMIT_SETTINGS_BYTES = 8 * 1024 * 1024, /* a request of one */
	LIMIT_ERROR_BYTES = 1024, /* one record on the status pipe */
};

#endif
