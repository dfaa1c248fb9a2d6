#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/cgroup_internal.h"

int cgroup_file_path(const char *dir, const char *file, char *ret)
{
	int n = snprintf(ret, PATH_MAX, *file ? "%s/%s" : "%s", dir, file);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

int cgroup_read(const char *dir, const char *file, struct buf *b)
{
	char path[PATH_MAX];
	int r = cgroup_file_path(dir, file, path);

	if (r < 0)
		return r;
	return fd_read_file(AT_FDCWD, path, CGROUP_FILE_MAX, b);
}

static int parse_number(const char *text, uint64_t *ret)
{
	char *end;

	if (strncmp(text, "max", 3) == 0) {
		*ret = UINT64_MAX;
		return 0;
	}
	errno = 0;
	*ret = strtoull(text, &end, 10);
	if (errno == ERANGE)
		*ret = UINT64_MAX;
	return end == text ? -EINVAL : 0;
}

int cgroup_read_number(const char *dir, const char *file, uint64_t *ret)
{
	auto_(buf) struct buf b = BUF_INIT;
	int r = cgroup_read(dir, file, &b);

	return r < 0 ? r : parse_number(buf_str(&b), ret);
}

int cgroup_read_key(const char *dir, const char *file, const char *key,
		    uint64_t *ret)
{
	auto_(buf) struct buf b = BUF_INIT;
	size_t len = strlen(key);
	int r = cgroup_read(dir, file, &b);

	if (r < 0)
		return r;
	for (const char *p = buf_str(&b); p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, key, len) == 0 && p[len] == ' ')
			return parse_number(p + len + 1, ret);
	}
	return -ENOENT;
}

int cgroup_write_raw(const char *dir, const char *file, const char *text)
{
	char path[PATH_MAX];
	int r = cgroup_file_path(dir, file, path);

	return r < 0 ? r : fd_write_file(AT_FDCWD, path, text);
}

int cgroup_replace(const struct cgroup_target *to, const char *file,
		   const char *text)
{
	int noted = to->journal ? cgroup_journal_note(to->journal, to->dir,
						      file, text)
				: 0;
	int r = noted < 0 ? noted : cgroup_write_raw(to->dir, file, text);

	if (r < 0 && noted > 0)
		cgroup_journal_drop(to->journal);
	return r;
}

/* What of linux.resources is written to which file. */
/* clang-format off */
static const struct {
	const char *file, *property; /* of a name with "*": what begins so */
} properties[] = {
	{ "memory.limit_in_bytes",       "memory.limit" },
	{ "memory.max",                  "memory.limit" },
	{ "memory.memsw.limit_in_bytes", "memory.swap" },
	{ "memory.swap.max",             "memory.swap" },
	{ "memory.soft_limit_in_bytes",  "memory.reservation" },
	{ "memory.low",                  "memory.reservation" },
	{ "memory.swappiness",           "memory.swappiness" },
	{ "memory.oom_control",          "memory.disableOOMKiller" },
	{ "cpu.shares",                  "cpu.shares" },
	{ "cpu.weight",                  "cpu.shares" },
	{ "cpu.cfs_quota_us",            "cpu.quota" },
	{ "cpu.cfs_period_us",           "cpu.period" },
	{ "cpu.max",                     "cpu.quota" },
	{ "cpu.cfs_burst_us",            "cpu.burst" },
	{ "cpu.max.burst",               "cpu.burst" },
	{ "cpu.rt_runtime_us",           "cpu.realtimeRuntime" },
	{ "cpu.rt_period_us",            "cpu.realtimePeriod" },
	{ "cpu.idle",                    "cpu.idle" },
	{ "cpuset.cpus",                 "cpu.cpus" },
	{ "cpuset.mems",                 "cpu.mems" },
	{ "pids.max",                    "pids.limit" },
	{ "blkio.*",                     "blockIO" },
	{ "io.*",                        "blockIO" },
	{ "hugetlb.*",                   "hugepageLimits" },
	{ "net_cls.classid",             "network.classID" },
	{ "net_prio.ifpriomap",          "network.priorities" },
	{ "rdma.max",                    "rdma" },
	{ "devices.*",                   "devices" },
};
/* clang-format on */

static const char *property_of(const char *file)
{
	for (size_t i = 0; i < ARRAY_LEN(properties); i++) {
		const char *p = properties[i].file;
		size_t n = strcspn(p, "*");

		if (strncmp(p, file, n) == 0 && (p[n] || !file[n]))
			return properties[i].property;
	}
	return NULL;
}

/* What a v2 cgroup was not given it has from the one above. */
static int read_effective(const char *dir, const char *file, struct buf *ret)
{
	char name[64];
	int r = cgroup_read(dir, file, ret);

	if (r < 0 || ret->len > 1)
		return r;
	buf_clear(ret);
	(void)snprintf(name, sizeof(name), "%s.effective", file);
	return cgroup_read(dir, name, ret);
}

/* Processors and memory nodes are the parent's, or fewer. */
static int hint_parent(const char *dir, const char *file, struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	const char *slash = strrchr(dir, '/');
	auto_free char *parent =
		slash ? strndup(dir, (size_t)(slash - dir)) : NULL;

	if (!parent || strncmp(file, "cpuset.", 7) != 0 ||
	    read_effective(parent, file, &b) < 0 || b.len < 2)
		return error_code(err);
	return error_hint(err, "its parent cgroup has '%.*s'",
			  (int)strcspn(buf_str(&b), "\n"), buf_str(&b));
}

int cgroup_write(const struct cgroup_target *to, const char *file,
		 const char *text, struct error *err)
{
	int r = cgroup_replace(to, file, text);
	const char *property = property_of(file);

	if (r == 0)
		return 0;
	if (r == -ENOENT) {
		(void)error_say(err, ERR_UNSUPPORTED, ENOENT,
				"the cgroup '%s' has no '%s'", to->dir, file);
		return error_hint(err, "this kernel cannot limit that");
	}
	(void)error_set(err, ERR_SYSTEM, -r, "%s%s%scannot set '%s' to '%s'",
			property ? "linux.resources." : "",
			property ? property : "", property ? ": " : "", file,
			text);
	return hint_parent(to->dir, file, err);
}

int cgroup_write_number(const struct cgroup_target *to, const char *file,
			int64_t v, struct error *err)
{
	char text[CGROUP_NUMBER_MAX];

	(void)snprintf(text, sizeof(text), "%lld", (long long)v);
	return cgroup_write(to, file, text, err);
}

int cgroup_write_max(const struct cgroup_target *to, const char *file,
		     int64_t v, struct error *err)
{
	if (v < 0)
		return cgroup_write(to, file, "max", err);
	return cgroup_write_number(to, file, v, err);
}

bool cgroup_has_file(const char *dir, const char *file)
{
	char path[PATH_MAX];

	return cgroup_file_path(dir, file, path) == 0 &&
	       access(path, F_OK) == 0;
}

/* Words are parted by blanks or commas. */
bool cgroup_has_word(const char *text, const char *word)
{
	static const char parts[] = " ,\n";
	size_t len = strlen(word);

	for (const char *p = text; *p;) {
		size_t n;

		p += strspn(p, parts);
		n = strcspn(p, parts);
		if (n == len && strncmp(p, word, len) == 0)
			return true;
		p += n;
	}
	return false;
}
