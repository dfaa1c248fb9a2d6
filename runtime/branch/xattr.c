#include "branch/xattr.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/uapi.h"

/* "/proc/self/fd/N/" and a name. */
enum { PROC_NAME_MAX = 32 + NAME_MAX };

static int proc_name(int dirfd, const char *name, char path[PROC_NAME_MAX])
{
	int n = snprintf(path, PROC_NAME_MAX, "/proc/self/fd/%d/%s", dirfd,
			 name);

	return n < PROC_NAME_MAX ? 0 : -ENAMETOOLONG;
}

/*
 * The object itself is "" in its own directory's place: an empty name means
 * the directory @dirfd.
 */
static unsigned int at_flags(const char *name)
{
	return AT_SYMLINK_NOFOLLOW | (name[0] ? 0 : AT_EMPTY_PATH);
}

ssize_t xattr_get(int dirfd, const char *name, const char *key, void *value,
		  size_t size)
{
	struct xattr_args args = { .value = (uintptr_t)value,
				   .size = (uint32_t)size };
	char path[PROC_NAME_MAX];
	ssize_t n = syscall(SYS_getxattrat, dirfd, name, at_flags(name), key,
			    &args, sizeof(args));

	if (n < 0 && errno == ENOSYS) {
		if (proc_name(dirfd, name, path) < 0)
			return -ENAMETOOLONG;
		n = lgetxattr(path, key, value, size);
	}
	return n < 0 ? -errno : n;
}

int xattr_set(int dirfd, const char *name, const char *key, const void *value,
	      size_t size)
{
	struct xattr_args args = { .value = (uintptr_t)value,
				   .size = (uint32_t)size };
	char path[PROC_NAME_MAX];
	long r = syscall(SYS_setxattrat, dirfd, name, at_flags(name), key,
			 &args, sizeof(args));

	if (r < 0 && errno == ENOSYS) {
		if (proc_name(dirfd, name, path) < 0)
			return -ENAMETOOLONG;
		r = lsetxattr(path, key, value, size, 0);
	}
	return r < 0 ? -errno : 0;
}

int xattr_remove(int dirfd, const char *name, const char *key)
{
	char path[PROC_NAME_MAX];
	long r = syscall(SYS_removexattrat, dirfd, name, at_flags(name), key);

	if (r < 0 && errno == ENOSYS) {
		if (proc_name(dirfd, name, path) < 0)
			return -ENAMETOOLONG;
		r = lremovexattr(path, key);
	}
	return r < 0 ? -errno : 0;
}

static ssize_t list_keys(int dirfd, const char *name, char *list, size_t size)
{
	char path[PROC_NAME_MAX];
	ssize_t n = syscall(SYS_listxattrat, dirfd, name, at_flags(name), list,
			    size);

	if (n < 0 && errno == ENOSYS) {
		if (proc_name(dirfd, name, path) < 0)
			return -ENAMETOOLONG;
		n = llistxattr(path, list, size);
	}
	if (n < 0 && (errno == EOPNOTSUPP || errno == ENODATA))
		return 0;
	return n < 0 ? -errno : n;
}

bool xattr_is_opaque(int dirfd, const char *name, const char *prefix)
{
	char key[64], value[2];

	(void)snprintf(key, sizeof(key), "%sopaque", prefix);
	return xattr_get(dirfd, name, key, value, sizeof(value)) == 1 &&
	       value[0] == 'y';
}

void xattrs_done(struct xattrs *x)
{
	for (size_t i = 0; i < x->n; i++) {
		free(x->v[i].key);
		free(x->v[i].value);
	}
	free(x->v);
	*x = (struct xattrs)XATTRS_INIT;
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct xattr *)a)->key,
		      ((const struct xattr *)b)->key);
}

const struct xattr *xattrs_find(const struct xattrs *x, const char *key)
{
	for (size_t i = 0; i < x->n; i++)
		if (strcmp(x->v[i].key, key) == 0)
			return &x->v[i];
	return NULL;
}

static bool is_private(const char *key, const char *prefix)
{
	return strncmp(key, prefix, strlen(prefix)) == 0;
}

/* "overlay." at the end of a prefix, which an escaped name has twice. */
static const char *marker_of(const char *prefix)
{
	return strchr(prefix, '.') + 1;
}

/*
 * XFS lists access control lists by these names, too. Copied up to another file
 * system they are attributes of no meaning, which keep what the list was
 * before.
 */
static bool is_second_acl(const char *key)
{
	return strcmp(key, "trusted.SGI_ACL_FILE") == 0 ||
	       strcmp(key, "trusted.SGI_ACL_DEFAULT") == 0;
}

/*
 * The name under which the sandbox knows a stored attribute: allocated, or
 * NULL with *@ret_hidden set if it does not know it.
 */
static char *visible_key(const char *key, const char *prefix, bool *ret_hidden)
{
	const char *marker = marker_of(prefix);
	const char *rest;
	char *out;

	*ret_hidden = false;
	if (!is_private(key, prefix)) {
		*ret_hidden = strcmp(key, "security.selinux") == 0 ||
			      is_second_acl(key);
		return *ret_hidden ? NULL : strdup(key);
	}
	rest = key + strlen(prefix);
	if (strncmp(rest, marker, strlen(marker)) != 0) {
		*ret_hidden = true;
		return NULL;
	}
	rest += strlen(marker);
	return asprintf(&out, "%s%s", prefix, rest) < 0 ? NULL : out;
}

/* Takes @key over. The attribute may vanish meanwhile: then it is left out. */
static int add_value(int dirfd, const char *name, const char *stored, char *key,
		     struct xattrs *x)
{
	auto_free char *owned = key;
	auto_free char *value = NULL;
	char small[256];
	ssize_t n = xattr_get(dirfd, name, stored, small, sizeof(small));
	struct xattr *grown;

	if (n >= 0) {
		value = malloc((size_t)n + 1);
		if (value)
			memcpy(value, small, (size_t)n);
	} else if (n == -ERANGE) {
		value = malloc(XATTR_SIZE_MAX);
		if (value)
			n = xattr_get(dirfd, name, stored, value,
				      XATTR_SIZE_MAX);
	}
	if (n == -ENODATA)
		return 0;
	if (!value)
		return n < 0 && n != -ERANGE ? (int)n : -ENOMEM;
	if (n < 0)
		return (int)n;
	grown = reallocarray(x->v, x->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	x->v = grown;
	grown[x->n++] = (struct xattr){ .key = take_ptr(&owned),
					.value = take_ptr(&value),
					.len = (size_t)n };
	return 0;
}

static int read_some(int dirfd, const char *name, const char *prefix,
		     bool private, struct xattrs *ret)
{
	auto_(xattrs) struct xattrs x = XATTRS_INIT;
	auto_free char *large = NULL;
	char small[512];
	char *list = small;
	ssize_t n = list_keys(dirfd, name, small, sizeof(small));

	if (n == -ERANGE) {
		list = large = malloc(XATTR_LIST_MAX);
		if (!large)
			return -ENOMEM;
		n = list_keys(dirfd, name, large, XATTR_LIST_MAX);
	}
	if (n < 0)
		return (int)n;
	for (const char *k = list; k < list + n; k += strlen(k) + 1) {
		bool hidden = private && !is_private(k, prefix);
		char *key = NULL;
		int r;

		if (private && !hidden)
			key = strdup(k);
		else if (!private)
			key = visible_key(k, prefix, &hidden);
		if (hidden)
			continue;
		if (!key)
			return -ENOMEM;
		r = add_value(dirfd, name, k, key, &x);
		if (r < 0)
			return r;
	}
	if (x.n > 1)
		qsort(x.v, x.n, sizeof(*x.v), compare_keys);
	*ret = x;
	x = (struct xattrs)XATTRS_INIT;
	return 0;
}

int xattrs_read_visible(int dirfd, const char *name, const char *prefix,
			struct xattrs *ret)
{
	return read_some(dirfd, name, prefix, false, ret);
}

int xattrs_read_private(int dirfd, const char *name, const char *prefix,
			struct xattrs *ret)
{
	return read_some(dirfd, name, prefix, true, ret);
}

static bool same_xattr(const struct xattr *a, const struct xattr *b)
{
	return strcmp(a->key, b->key) == 0 && a->len == b->len &&
	       memcmp(a->value, b->value, a->len) == 0;
}

bool xattrs_equal(const struct xattrs *a, const struct xattrs *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!same_xattr(&a->v[i], &b->v[i]))
			return false;
	return true;
}

static int remove_if_there(int dirfd, const char *name, const char *key)
{
	int r = xattr_remove(dirfd, name, key);

	return r == -ENODATA ? 0 : r;
}

/*
 * All stored names go before the sandbox's own come back: one of these may be
 * called like a stored one.
 */
int xattrs_strip(int dirfd, const char *name, const char *prefix,
		 const struct xattrs *private)
{
	int r = 0;

	for (size_t i = 0; i < private->n && r == 0; i++)
		r = remove_if_there(dirfd, name, private->v[i].key);
	for (size_t i = 0; i < private->n && r == 0; i++) {
		const struct xattr *x = &private->v[i];
		bool hidden;
		auto_free char *key = visible_key(x->key, prefix, &hidden);

		if (key)
			r = xattr_set(dirfd, name, key, x->value, x->len);
		else if (!hidden)
			r = -ENOMEM;
	}
	return r;
}

int xattrs_unstrip(int dirfd, const char *name, const char *prefix,
		   const struct xattrs *private)
{
	for (size_t i = 0; i < private->n; i++) {
		const struct xattr *x = &private->v[i];
		bool hidden;
		auto_free char *key = visible_key(x->key, prefix, &hidden);
		int r;

		if (!key && !hidden)
			return -ENOMEM;
		r = xattr_set(dirfd, name, x->key, x->value, x->len);
		if (r == 0 && key && !xattrs_find(private, key))
			r = remove_if_there(dirfd, name, key);
		if (r < 0)
			return r;
	}
	return 0;
}

int xattrs_apply(int dirfd, const char *name, const struct xattrs *from,
		 const struct xattrs *to)
{
	int r = 0;

	for (size_t i = 0; i < from->n && r == 0; i++)
		if (!xattrs_find(to, from->v[i].key))
			r = remove_if_there(dirfd, name, from->v[i].key);
	for (size_t i = 0; i < to->n && r == 0; i++) {
		const struct xattr *old = xattrs_find(from, to->v[i].key);

		if (!old || !same_xattr(old, &to->v[i]))
			r = xattr_set(dirfd, name, to->v[i].key, to->v[i].value,
				      to->v[i].len);
	}
	return r;
}
