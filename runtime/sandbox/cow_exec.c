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

#ifndef AT_EXECVE_CHECK
#define AT_EXECVE_CHECK 0x10000
#endif

enum {
	LINE_MAX_BYTES = 256, /* BINPRM_BUF_SIZE */
	SCRIPTS_MAX = 5,      /* one that interprets the other */
	EXEC_FLAGS = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_EXECVE_CHECK,
};

struct script {
	char line[LINE_MAX_BYTES];
	char *interpreter;
	char *arg; /* or NULL */
};

/* 1: it is one; 0: it is none, or the kernel is to say what it is; -ENOEXEC. */
static int read_script(const struct cow_place *p, struct script *ret)
{
	auto_close int fd = -1;
	bool is_whole;
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
	is_whole = n < (ssize_t)sizeof(ret->line) - 1 || *end;
	while (end > ret->line && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	ret->interpreter = ret->line + 2 + strspn(ret->line + 2, " \t");
	at = ret->interpreter + strcspn(ret->interpreter, " \t");
	/* Arguments may be cut, it may not. */
	if (!is_whole && !*at)
		return -ENOEXEC;
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

/* Where an interpreter is. */
static int find_interpreter(struct cow *w, struct call *c,
			    const struct script *s, struct cow_place *ret)
{
	char base[PATH_MAX] = "/";
	int r = *s->interpreter == '/' ? 0 : cow_base(c, AT_FDCWD, base);

	if (r == 0)
		r = cow_find_text(w, c, base, s->interpreter, COW_FOLLOW, ret);
	if (r == 0 && ret->root && !ret->at.exists)
		r = -ENOENT;
	return r;
}

/*
 * What interprets it in the end, which may be a script, too: @s has room for
 * SCRIPTS_MAX. How many they are.
 */
static int find_interpreters(struct cow *w, struct call *c,
			     const struct cow_place *p, struct script *s,
			     struct cow_place *ret, bool *ret_as_it_is)
{
	int n = 0, r = check_executable(p);

	*ret_as_it_is = p->is_as_it_is;
	while (r >= 0) {
		r = find_interpreter(w, c, &s[n++], ret);
		*ret_as_it_is &= r == 0 && ret->is_as_it_is;
		if (r < 0 || !ret->root)
			break;
		r = check_executable(ret);
		if (r < 0)
			break;
		r = n < SCRIPTS_MAX ? read_script(ret, &s[n]) : -ELOOP;
		if (r <= 0)
			break;
	}
	return r < 0 ? r : n;
}

/* As the kernel names a script that was given by a directory, which has to be
 * there still for the interpreter. */
static int name_script(struct call *c, int dirfd, const struct cow_place *p,
		       char ret[PATH_MAX])
{
	bool is_path = *p->text == '/' || dirfd == AT_FDCWD;
	struct cow_fd_info i = { .at = 0 };
	int n, r = is_path ? 0 : cow_read_fd_info(c, dirfd, &i);

	if (r < 0 || (i.flags & O_CLOEXEC))
		return r < 0 ? r : -ENOENT;
	n = is_path ? snprintf(ret, PATH_MAX, "%s", p->text)
		    : snprintf(ret, PATH_MAX, "/dev/fd/%d/%s", dirfd, p->text);
	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static struct outcome run_script(struct cow *w, struct call *c, int dirfd,
				 const struct cow_place *p, struct script *s)
{
	auto_(cow_reach) struct cow_reach at = COW_REACH_INIT;
	const char *words[2 * SCRIPTS_MAX + 1];
	struct redirect to = { .words = words };
	struct cow_place q = { .root = NULL };
	char whole[PATH_MAX];
	bool as_it_is;
	int n = find_interpreters(w, c, p, s, &q, &as_it_is), r;

	if (as_it_is)
		return OUTCOME_GO;
	r = n < 0 ? n : name_script(c, dirfd, p, whole);
	if (r == 0)
		r = cow_reach(&q, &at);
	if (r < 0)
		return OUTCOME_FAIL(-r);
	/* So that it is called what it is called there. */
	if (q.is_as_it_is)
		path_copy(at.path, s[n - 1].interpreter);
	while (n-- > 0) {
		words[to.n_words++] = s[n].interpreter;
		if (s[n].arg)
			words[to.n_words++] = s[n].arg;
	}
	words[to.n_words++] = whole;
	return go_there(c, &at, &to);
}

/* AT_EXECVE_CHECK: of what would be executed. */
static struct outcome check_only(const struct cow_place *p)
{
	return p->is_as_it_is ? OUTCOME_GO : cow_outcome(check_executable(p));
}

struct outcome cow_exec(struct cow *w, struct call *c)
{
	bool is_at = call_nr(c) == SYS_execveat;
	int dirfd = is_at ? (int)call_arg(c, 0) : AT_FDCWD;
	unsigned int flags = is_at ? (unsigned int)call_arg(c, 4) : 0;
	auto_(cow_reach) struct cow_reach at = COW_REACH_INIT;
	struct redirect to = { .path = NULL };
	struct script s[SCRIPTS_MAX];
	struct cow_place p;
	int r = cow_find(w, c, dirfd, call_arg(c, is_at),
			 (flags & AT_SYMLINK_NOFOLLOW ? 0 : COW_FOLLOW) |
				 (flags & AT_EMPTY_PATH ? COW_EMPTY : 0),
			 &p);

	if (r < 0)
		return OUTCOME_FAIL(-r);
	/* What is said wrong the kernel says. */
	if (!p.root || !*p.text || (flags & ~(unsigned int)EXEC_FLAGS))
		return OUTCOME_GO;
	if (!p.at.exists)
		return OUTCOME_FAIL(ENOENT);
	if (flags & AT_EXECVE_CHECK)
		return check_only(&p);
	if (S_ISLNK(p.at.mode) && (flags & AT_SYMLINK_NOFOLLOW))
		return OUTCOME_FAIL(ELOOP);
	r = S_ISREG(p.at.mode) ? read_script(&p, s) : 0;
	if (r)
		return r < 0 ? OUTCOME_FAIL(-r)
			     : run_script(w, c, dirfd, &p, s);
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
