#include "sandbox/launcher.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "kernel/caps.h"
#include "kernel/seccomp.h"

extern const char launcher_image[];
extern const char launcher_image_end[];

enum { ALL_SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

static int sealed_memfd(const char *name, unsigned int flags, mode_t mode,
			const void *data, size_t n, int *ret_fd)
{
	auto_close int fd =
		memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
	int r;

	if (fd < 0 && errno == EINVAL && (flags & MFD_EXEC))
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, data, n);
	if (r < 0)
		return r;
	/* What cannot be read cannot be dumped or traced when it is executed:
	 * also not in the moment before the launcher says so itself. */
	if (mode && fchmod(fd, mode) < 0)
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, ALL_SEALS) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

int launcher_open(int *ret_fd, struct error *err)
{
	int r = sealed_memfd("launcher", MFD_EXEC, 0111, launcher_image,
			     (size_t)(launcher_image_end - launcher_image),
			     ret_fd);

	if (r == -EACCES) {
		(void)error_set(err, ERR_UNSUPPORTED, EACCES,
				"cannot make an executable memfd");
		return error_hint(err,
				  "vm.memfd_noexec=2 forbids it: set it to 1");
	}
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot make a memfd");
	return 0;
}

int launcher_filter(const struct seccomp_program *p, int *ret_fd,
		    struct error *err)
{
	int r = sealed_memfd("seccomp", 0, 0, p->insns,
			     p->n_insns * sizeof(struct sock_filter), ret_fd);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot make a memfd");
	return 0;
}

/* Kept over the exec; what is not there is 0:0:0. */
static int add_filter(struct buf *b, const struct seccomp_program *p, int fd)
{
	buf_printf(b, ":%d:%zu:%u", p ? fd : 0, p ? p->n_insns : 0,
		   p ? p->flags : 0);
	return p && fcntl(fd, F_SETFD, 0) < 0 ? -errno : 0;
}

/*
 * Who may read every file could dump and trace the launcher after all, until it
 * says otherwise, and so could who is inside. The exec gives these back.
 */
static int lose_reading(void)
{
	const uint64_t reading = UINT64_C(1) << CAP_DAC_OVERRIDE |
				 UINT64_C(1) << CAP_DAC_READ_SEARCH;
	uint64_t now;
	int r = caps_get_effective(&now);

	return r < 0 || !(now & reading) ? r
					 : caps_set_effective(now & ~reading);
}

/* INIT of launcher/main.c. */
static int number_of_way(struct launcher_way way, bool may_wait)
{
	if (way.init)
		return may_wait ? 1 : 2;
	if (way.beside)
		return 4 + (way.takes_terminal ? 8 : 0) + (way.dies ? 16 : 0);
	return 0;
}

int launcher_exec(int launcher_fd, int status_fd,
		  const struct launcher_filters *f, struct launcher_way way,
		  const char *path, char *const *argv, char *const *envp,
		  struct error *err)
{
	const struct seccomp_program *listens = f->traps ? f->traps : f->filter;
	bool traps_io = listens && listens->traps_io;
	bool may_wait = listens && (listens->traps_exec || traps_io);
	auto_(buf) struct buf control = BUF_INIT;
	int r;
	size_t n = 0;
	auto_free char **all = NULL;

	while (argv[n])
		n++;
	all = calloc(n + 3, sizeof(*all));
	if (!all)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot execute '%s'",
				 path);
	buf_printf(&control, "%d", status_fd);
	r = add_filter(&control, f->filter, f->filter_fd);
	buf_printf(&control, ":%d:%d", number_of_way(way, may_wait), traps_io);
	if (r == 0)
		r = add_filter(&control, f->traps, f->traps_fd);
	buf_printf(&control, ":%d:%d", way.go_fd, way.fail_fd);
	if (r == 0 && way.go_fd &&
	    (fcntl(way.go_fd, F_SETFD, 0) < 0 ||
	     fcntl(way.fail_fd, F_SETFD, 0) < 0))
		r = -errno;
	if (buf_failed(&control))
		r = -ENOMEM;
	all[0] = control.data;
	all[1] = (char *)path;
	memcpy(all + 2, argv, n * sizeof(*all));
	if (r == 0 && fcntl(status_fd, F_SETFD, 0) < 0)
		r = -errno;
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot pass an fd");
	r = lose_reading();
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot set the capabilities");
	(void)syscall(SYS_execveat, launcher_fd, "", all, envp, AT_EMPTY_PATH);
	return error_set(err, ERR_SYSTEM, errno, "cannot execute the launcher");
}
