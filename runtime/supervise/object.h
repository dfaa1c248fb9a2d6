/*
 * What a path of the caller stands for: looked up in the caller's own root and
 * working directory, and never followed out of them.
 */
#ifndef SANDLOCK_SUPERVISE_OBJECT_H
#define SANDLOCK_SUPERVISE_OBJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct call;

struct object {
	char *path; /* as it was written, made absolute and normal */
	char *real; /* what that leads to; NULL: cannot be known */
	char *walk; /* as it was written, from the caller's root on */
	char *dir;  /* what of @walk is the directory it began in; or NULL */
	/* It goes on behind a magic link of /proc (/proc/self/root/etc): what
	 * it leads to cannot be known, and must not be allowed. */
	bool is_veiled;
	bool exists;
	bool is_missing; /* nothing is there, whoever looks */
	struct stat st;	 /* if it exists */
	uint64_t mount;	 /* its number; 0: cannot be known */
};

/*
 * A last component that does not exist is no error: @real is then below the
 * real directory. Where nothing can be looked up (/proc/self and other magic
 * links, a directory that is gone) @real is NULL. -ENOMEM, -ESRCH, -EBADF.
 */
int object_find(struct call *c, int dirfd, const char *path, bool follow,
		struct object *ret);
/* Where a walk has led, O_PATH: an fd that is somebody's, or -errno. */
struct object_found {
	int fd;
	struct stat st;
	uint64_t mount;
	const char *real; /* or NULL */
};

/* The same for who has the caller's root already. @found, or NULL: the caller
 * was alive after @path was read, and may have been walked for already. */
int object_find_from(struct call *c, int root_fd, int dirfd, const char *path,
		     bool follow, const struct object_found *found,
		     struct object *ret);
void object_done(struct object *t);
/* What an fd is of, as in @st and @mount. 0 or a negative errno. */
int object_read_stat(int fd, struct stat *ret, uint64_t *ret_mount);
/* That number is never given to another mount (6.8). */
bool object_is_unique_mount(uint64_t mount);

/*
 * Where paths lead that are not walked by the kernel alone. @addr: where @path
 * was read; 0: it was asked about before, and the call has to stay what it is.
 * @find may fail with an errno that is the call's. While it is held nothing
 * there changes, but by who holds it. @walk and @dir may be left out.
 */
struct object_finder {
	int (*find)(void *data, struct call *c, int dirfd, uint64_t addr,
		    const char *path, bool follow, struct object *ret);
	/* For reading, what was found in a branch; -errno. */
	int (*open)(void *data, struct call *c, const struct object *o);
	void (*hold)(void *data, bool held);
	/* What the caller calls the file that the kernel has as @real; NULL:
	 * the same. */
	char *(*show)(void *data, const char *real);
	void *data;
};

/* The same object, under the same name. */
bool object_is_same(const struct object *a, const struct object *b);
/* With the same contents, too, as far as its times tell. */
bool object_is_unchanged(const struct object *a, const struct object *b);
/* The same file with the same contents, whatever its name. */
bool object_has_same_file(const struct object *a, const struct object *b);

#endif
