/*
 * Owners are marked where they are declared, and what they own is released at
 * the end of the scope unless it was handed over:
 *
 *	auto_close int fd = open(...);
 *	auto_free char *path = strdup(...);
 *	auto_(buf) struct buf b = BUF_INIT;	calls buf_done(&b)
 *	*ret_fd = take_fd(&fd);
 *
 * Destructors leave errno alone.
 */
#ifndef SANDLOCK_BASE_CLEANUP_H
#define SANDLOCK_BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd);
	errno = saved;
}

static inline void cleanup_free(void *pp)
{
	free(*(void **)pp);
}

static inline void cleanup_dir(DIR **dir)
{
	int saved = errno;

	if (*dir)
		(void)closedir(*dir);
	errno = saved;
}

static inline void cleanup_file(FILE **file)
{
	int saved = errno;

	if (*file)
		(void)fclose(*file);
	errno = saved;
}

#define auto_close __attribute__((cleanup(cleanup_close)))
#define auto_free __attribute__((cleanup(cleanup_free)))
#define auto_dir __attribute__((cleanup(cleanup_dir)))
#define auto_file __attribute__((cleanup(cleanup_file)))

/* For a type whose destructor is <module>_done(struct module *). */
#define auto_(module) __attribute__((cleanup(module##_done)))

/*
 * For a type that is held by pointer and freed by FUNC(ptr): declares
 * cleanup_FUNC, used as auto_ptr(FUNC).
 */
#define CLEANUP_PTR(type, func)                      \
	static inline void cleanup_##func(type **pp) \
	{                                            \
		int saved = errno;                   \
		if (*pp)                             \
			(void)func(*pp);             \
		errno = saved;                       \
	}                                            \
	struct cleanup_##func##_needs_semicolon
#define auto_ptr(func) __attribute__((cleanup(cleanup_##func)))

/* Hands the fd over: the owner no longer closes it. */
static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

/* Hands the pointer over: the owner no longer frees it. */
#define take_ptr(pp)                              \
	({                                        \
		__typeof__(*(pp)) taken_ = *(pp); \
		*(pp) = NULL;                     \
		taken_;                           \
	})

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
