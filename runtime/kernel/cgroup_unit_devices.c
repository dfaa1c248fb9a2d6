/*
 * Device rules as properties of a unit, for v1: there systemd writes the lists
 * of allowed devices anew whenever it applies a unit's settings, and without a
 * policy that means all of them. On v2 our program stays beside its own.
 *
 * A unit has a list of what is allowed, and no order. So the rules are played
 * through; what cannot be said in such a list is left out of it, and is
 * forbidden once systemd applies its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/cgroup_internal.h"
#include "kernel/systemd.h"
#include "spec/spec.h"

enum { DEVICES_FILE_MAX = 64 * 1024, DEVICE_TEXT_MAX = 96 };

static bool overlaps(int64_t a, int64_t b)
{
	return a < 0 || b < 0 || a == b;
}

/* Takes what a deny speaks about out of the rules before it. */
static void forbid(struct spec_device_rule *list, size_t n,
		   const struct spec_device_rule *deny)
{
	for (size_t i = 0; i < n; i++) {
		struct spec_device_rule *r = &list[i];

		if ((r->type != deny->type && r->type != 'a' &&
		     deny->type != 'a') ||
		    !overlaps(r->major, deny->major) ||
		    !overlaps(r->minor, deny->minor))
			continue;
		r->read = r->read && !deny->read;
		r->write = r->write && !deny->write;
		r->mknod = r->mknod && !deny->mknod;
	}
}

/* The driver of a major number, as /proc/devices names it. */
static bool driver_of(const char *devices, char type, int64_t major,
		      char ret[DEVICE_TEXT_MAX])
{
	const char *p = strstr(devices, type == 'b' ? "Block devices:\n"
						    : "Character devices:\n");

	for (p = p ? strchr(p, '\n') : NULL; p && p[1] && p[1] != '\n';
	     p = strchr(p + 1, '\n')) {
		char name[64];
		int64_t n;

		if (sscanf(p, "%" SCNd64 " %63s", &n, name) == 2 &&
		    n == major) {
			(void)snprintf(ret, DEVICE_TEXT_MAX, "%s-%s",
				       type == 'b' ? "block" : "char", name);
			return true;
		}
	}
	return false;
}

/* What systemd calls the devices of a rule of type b or c. */
static bool name_of(const char *devices, const struct spec_device_rule *r,
		    char ret[DEVICE_TEXT_MAX])
{
	const char *kind = r->type == 'b' ? "block" : "char";

	if (r->major < 0 && r->minor < 0) {
		(void)snprintf(ret, DEVICE_TEXT_MAX, "%s-*", kind);
		return true;
	}
	if (r->major < 0)
		return false;
	if (r->minor < 0)
		return driver_of(devices, r->type, r->major, ret);
	(void)snprintf(ret, DEVICE_TEXT_MAX, "/dev/%s/%" PRId64 ":%" PRId64,
		       kind, r->major, r->minor);
	return true;
}

/* Of the devices of @type, b or c, if the rule speaks about them. */
static size_t add_rule(struct buf *words, const char *devices, char type,
		       struct spec_device_rule r)
{
	char name[DEVICE_TEXT_MAX];

	if ((r.type != type && r.type != 'a') ||
	    (!r.read && !r.write && !r.mknod))
		return 0;
	r.type = type;
	if (!name_of(devices, &r, name))
		return 0;
	buf_printf(words, "%s%c%s%s%s%c", name, 0, r.read ? "r" : "",
		   r.write ? "w" : "", r.mknod ? "m" : "", 0);
	return 1;
}

/* The rules in force at the end, as ones that allow. */
static size_t play(const struct spec_resources *r,
		   struct spec_device_rule *list, bool *ret_strict)
{
	size_t n = 0;

	*ret_strict = false;
	for (size_t i = 0; i < cgroup_rule_count(r); i++) {
		const struct spec_device_rule *rule = cgroup_rule_at(r, i);

		if (cgroup_rule_decides_all(rule)) {
			*ret_strict = !rule->allow;
			n = 0;
		} else if (rule->allow) {
			list[n++] = *rule;
		} else {
			forbid(list, n, rule);
		}
	}
	return n;
}

int cgroup_unit_devices(const struct spec_resources *r, struct systemd_props *p,
			struct error *err)
{
	auto_free struct spec_device_rule *list =
		calloc(cgroup_rule_count(r), sizeof(*list));
	auto_(buf) struct buf devices = BUF_INIT, words = BUF_INIT;
	size_t n, n_words = 0;
	bool strict;

	if (!list)
		return error_set(err, ERR_SYSTEM, ENOMEM, "unit properties");
	n = play(r, list, &strict);
	/* Where all is allowed but some a list has nothing to say. */
	if (!strict)
		return 0;
	(void)fd_read_file(AT_FDCWD, "/proc/devices", DEVICES_FILE_MAX,
			   &devices);
	for (size_t i = 0; i < n; i++) {
		n_words += add_rule(&words, buf_str(&devices), 'b', list[i]);
		n_words += add_rule(&words, buf_str(&devices), 'c', list[i]);
	}
	systemd_add_text(p, "DevicePolicy", "strict");
	systemd_add_pairs(p, "DeviceAllow", n_words, &words);
	return 0;
}
