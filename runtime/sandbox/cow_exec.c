/*
 * Programs of a branch. What only upper has is executed under its real path.
 * Of a script, the interpreter is, with the path of the script as it was given
 * among its arguments, as the kernel would have it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "sandbox/cow_internal.h"
#include "supervise/exec.h"

enum { LINE_MAX_BYTES = 256 }; /* BINPRM_BUF_SIZE */

struct script {
	char line[LINE_MAX_BYTES];
	char *interpreter;
	char *arg; /* or NULL */
};

/* 1: it is one; 0: it is none, or the kernel is to say what it is. */
static int read_script(const struct cow_place *p, struct script *ret)
{
	auto_close int fd = -1;
	ssize_t n;
	char *end, *at;

	if (merged_open(p->root->merged, p->at.path, O_RDONLY | O_NONBLOCK, 0,
			&fd) < 0)
		return 0;
	n = read(fd, ret->line, sizeof(ret->line) - 1);
	if (n < 3 || memcmp(ret->line, "#!", 2) != 0)
		return 0;
	ret->line[n] = '\0';
	end = ret->line + strcspn(ret->line, "\n");
	while (end > ret->line && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	ret->interpreter = ret->line + 2 + strspn(ret->line + 2, " \t");
	at = ret->interpreter + strcspn(ret->interpreter, " \t");
	ret->arg = NULL;
	if (*at) {
		*at++ = '\0';
		ret->arg = at + strspn(at, " \t");
	}
	return *ret->interpreter != '\0';
}

static int check_executable(const struct cow_place *p)
{
	auto_close int fd = -1;
	int r = merged_find(p->root->merged, p->at.path, &fd);

	if (r == 0 && !S_ISREG(p->at.mode))
		r = -EACCES;
	if (r == 0 && syscall(SYS_faccessat2, fd, "", X_OK,
			      AT_EMPTY_PATH | AT_EACCESS) < 0)
		r = -errno;
	return r;
}

static struct outcome go_there(struct call *c, const struct cow_reach *at,
			       struct redirect *to)
{
	int r;

	to->path = at->path;
	to->is_lent = at->is_lent;
	to->lent_fd = at->fd;
	r = exec_pass(c, to);
	return r < 0 ? OUTCOME_FAIL(-r) : redirect_call(c, to);
}

static struct outcome run_script(struct cow *w, struct call *c, int dirfd,
				 const struct cow_place *p,
				 const struct script *s)
{
	auto_(cow_reach) struct cow_reach at = COW_REACH_INIT;
	char base[PATH_MAX] = "/", whole[PATH_MAX];
	const char *words[3];
	struct redirect to = { .words = words };
	struct cow_place q = { .root = NULL };
	int n, r = check_executable(p);

	if (r == 0 && *s->interpreter != '/')
		r = cow_base(c, AT_FDCWD, base);
	if (r == 0)
		r = cow_find_text(w, c, base, s->interpreter, COW_FOLLOW, &q);
	if (r < 0)
		return OUTCOME_FAIL(-r);
	if (p->is_as_it_is && q.is_as_it_is)
		return OUTCOME_GO;
	if (q.root && !q.at.exists)
		return OUTCOME_FAIL(ENOENT);
	r = q.root ? check_executable(&q) : 0;
	if (r == 0)
		r = cow_reach(&q, &at);
	if (r < 0)
		return OUTCOME_FAIL(-r);
	/* As the kernel names a script that was given by a directory. */
	n = *p->text == '/' || dirfd == AT_FDCWD
		    ? snprintf(whole, sizeof(whole), "%s", p->text)
		    : snprintf(whole, sizeof(whole), "/dev/fd/%d/%s", dirfd,
			       p->text);
	if (n < 0 || (size_t)n >= sizeof(whole))
		return OUTCOME_FAIL(ENAMETOOLONG);
	words[to.n_words++] = s->interpreter;
	if (s->arg)
		words[to.n_words++] = s->arg;
	words[to.n_words++] = whole;
	return go_there(c, &at, &to);
}

struct outcome cow_exec(struct cow *w, struct call *c)
{
	bool is_at = call_nr(c) == SYS_execveat;
	int dirfd = is_at ? (int)call_arg(c, 0) : AT_FDCWD;
	unsigned int flags = is_at ? (unsigned int)call_arg(c, 4) : 0;
	auto_(cow_reach) struct cow_reach at = COW_REACH_INIT;
	struct redirect to = { .path = NULL };
	struct cow_place p;
	struct script s;
	int r = cow_find(w, c, dirfd, call_arg(c, is_at),
			 (flags & AT_SYMLINK_NOFOLLOW ? 0 : COW_FOLLOW) |
				 (flags & AT_EMPTY_PATH ? COW_EMPTY : 0),
			 &p);

	if (r < 0)
		return OUTCOME_FAIL(-r);
	if (!p.root || !*p.text)
		return OUTCOME_GO;
	if (!p.at.exists)
		return OUTCOME_FAIL(ENOENT);
	if (S_ISREG(p.at.mode) && read_script(&p, &s))
		return run_script(w, c, dirfd, &p, &s);
	if (p.is_as_it_is)
		return OUTCOME_GO;
	r = check_executable(&p);
	if (r == 0)
		r = cow_reach(&p, &at);
	/* It came back: the kernel would not find it. */
	if (r == 0 && redirect_is_made(c))
		r = -EIO;
	return r < 0 ? OUTCOME_FAIL(-r) : go_there(c, &at, &to);
}
