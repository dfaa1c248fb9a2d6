/*
 * The plan of an interrupted commit. The digest is put behind the input, so
 * that what stands in between is reached; names and attributes of a plan that
 * is accepted are all within its text.
 */
#include <fcntl.h>
#include <sha2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "branch/plan.h"
#include "branch/xattr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_intent(int dir_fd, const uint8_t *data, size_t size)
{
	auto_close int fd =
		openat(dir_fd, "intent",
		       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint8_t digest[SHA256_DIGEST_LENGTH];
	SHA2_CTX sha;

	SHA256Init(&sha);
	SHA256Update(&sha, data, size);
	SHA256Final(digest, &sha);
	if (fd < 0 || fd_write_full(fd, data, size) < 0 ||
	    fd_write_full(fd, digest, sizeof(digest)) < 0)
		abort();
}

static void look_at(const struct plan *p)
{
	auto_(buf) struct buf path = BUF_INIT;

	for (size_t i = 0; i < p->n_ops; i++) {
		auto_(xattrs) struct xattrs x = XATTRS_INIT;

		plan_path(p, p->ops[i].dir, plan_text(p, p->ops[i].name),
			  &path);
		if (path.len == 0 || path.data[0] == '/' ||
		    strstr(path.data, "//"))
			abort();
		if (!(p->ops[i].flags & OP_MKDIR))
			(void)plan_get_xattrs(p, p->ops[i].strip, &x);
	}
	for (uint32_t i = 0; i < p->n_dirs; i++) {
		auto_(xattrs) struct xattrs old = XATTRS_INIT;
		auto_(xattrs) struct xattrs new = XATTRS_INIT;

		plan_path(p, i, NULL, &path);
		(void)plan_get_xattrs(p, p->dirs[i].old_xattrs, &old);
		(void)plan_get_xattrs(p, p->dirs[i].new_xattrs, &new);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[] = "/tmp/sandlock-fuzz-XXXXXX";
	auto_(plan) struct plan p = { .n_ops = 0 };
	auto_close int dir_fd = -1;

	if (!mkdtemp(dir))
		abort();
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		abort();
	write_intent(dir_fd, data, size);
	if (intent_read(&p, dir_fd, NULL) == 0)
		look_at(&p);
	(void)unlinkat(dir_fd, "intent", 0);
	(void)rmdir(dir);
	return 0;
}
