/*
 * Extended attributes of an object that is named by its directory's fd and a
 * single component, without opening it and without following it: FIFOs and
 * devices have attributes too. By the *xattrat calls (6.13), else through
 * /proc/self/fd.
 *
 * The attributes that an overlay keeps for itself ("private", prefix
 * trusted.overlay. or user.overlay.) are no part of what the sandbox wrote. An
 * attribute of that name that it did write is stored with the prefix doubled.
 */
#ifndef SANDLOCK_BRANCH_XATTR_H
#define SANDLOCK_BRANCH_XATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Like lgetxattr(2) and its relatives, but return a negative errno. */
ssize_t xattr_get(int dirfd, const char *name, const char *key, void *value,
		  size_t size);
int xattr_set(int dirfd, const char *name, const char *key, const void *value,
	      size_t size);
int xattr_remove(int dirfd, const char *name, const char *key);

/* Does the overlay's attribute say that a directory hides what is below? */
bool xattr_is_opaque(int dirfd, const char *name, const char *prefix);

struct xattr {
	char *key;
	char *value;
	size_t len;
};

/* All or some attributes of one object, sorted by key. */
struct xattrs {
	struct xattr *v;
	size_t n;
};
#define XATTRS_INIT       \
	{                 \
		.v = NULL \
	}

void xattrs_done(struct xattrs *x);
const struct xattr *xattrs_find(const struct xattrs *x, const char *key);

/*
 * What the sandbox sees: without private attributes, doubled prefixes undone,
 * without security.selinux (the label follows policy, not contents) and the
 * second names of access control lists on XFS. 0 or a negative errno; a file
 * system without attributes has none.
 */
int xattrs_read_visible(int dirfd, const char *name, const char *prefix,
			struct xattrs *ret);

/* Everything under @prefix, doubled ones too, as it is stored. */
int xattrs_read_private(int dirfd, const char *name, const char *prefix,
			struct xattrs *ret);

bool xattrs_equal(const struct xattrs *a, const struct xattrs *b);

/*
 * Takes the stored attributes @private off the object and puts back the ones
 * that the sandbox wrote under their own names; xattrs_unstrip is the reverse.
 * Both may be repeated.
 */
int xattrs_strip(int dirfd, const char *name, const char *prefix,
		 const struct xattrs *private);
int xattrs_unstrip(int dirfd, const char *name, const char *prefix,
		   const struct xattrs *private);

/* Makes the visible attributes of the object @from what @to says. */
int xattrs_apply(int dirfd, const char *name, const struct xattrs *from,
		 const struct xattrs *to);

#endif
