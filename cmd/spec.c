#include "cmd.h"

#include <fcntl.h>

#include "base/error.h"
#include "base/fd.h"
#include "spec/spec.h"

static int open_bundle(const char *path, int *ret_fd,
		       struct sandlock_error *err)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return cmd_error(err, SANDLOCK_ERR_BUNDLE, errno,
				 "cannot open the bundle '%s'", path);
	*ret_fd = fd;
	return 0;
}

static int write_config(int dir_fd, const struct buf *text,
			struct sandlock_error *err)
{
	auto_close int fd = openat(
		dir_fd, "config.json",
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	int r;

	if (fd < 0 && errno == EEXIST) {
		(void)cmd_error(err, SANDLOCK_ERR_EXISTS, 0,
				"'config.json' exists");
		return cmd_hint(err, "remove it, or name another directory "
				     "with --bundle");
	}
	if (fd < 0)
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, errno,
				 "cannot make 'config.json'");
	r = fd_write_full(fd, text->data, text->len);
	if (r < 0) {
		(void)unlinkat(dir_fd, "config.json", 0);
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, -r,
				 "cannot write 'config.json'");
	}
	return 0;
}

int cmd_spec(struct ctx *ctx, struct args *args)
{
	const char *bundle = args_str(args, "bundle");
	auto_(buf) struct buf text = BUF_INIT;
	struct sandlock_error err = { 0 };
	struct error e = ERROR_INIT;
	auto_close int dir_fd = -1;

	if (spec_default_json(args_has(args, "rootless"), &text, &e) < 0) {
		cmd_error_from(&err, &e);
		return cmd_fail(ctx, &err);
	}
	if (open_bundle(bundle ? bundle : ".", &dir_fd, &err) < 0 ||
	    write_config(dir_fd, &text, &err) < 0)
		return cmd_fail(ctx, &err);
	return 0;
}
