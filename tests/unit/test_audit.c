/* What a sandbox can have written into the audit log, and what is never left
 * out of it. */
#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "sandbox/audit.h"

CLEANUP_PTR(struct json, json_free);

struct world {
	struct audit *audit;
	int fd;
};

static void begin(struct world *w)
{
	w->fd = memfd_create("audit", MFD_CLOEXEC);
	assert_true(w->fd >= 0);
	w->audit = audit_new("box", fcntl(w->fd, F_DUPFD_CLOEXEC, 0), NULL);
	assert_non_null(w->audit);
	audit_set_lazy(w->audit);
}

/* What is told of one about @path. */
static void tell(struct world *w, unsigned int number, const char *path,
		 int error, bool by_program, enum approval_state state)
{
	struct event e = { .syscall = "openat",
			   .category = EVENT_FILE,
			   .path = (char *)(uintptr_t)path };
	char digest[EVENT_DIGEST_LEN + 1];
	struct approval_info i = {
		.id = number,
		.digest = digest,
		.event = &e,
		.state = state,
		.is_open = true,
		.error = error,
		.who = "somebody",
		.by_program = by_program,
		.count = 1,
	};

	event_digest(&e, digest);
	audit_told(w->audit, &i);
}

/* How many lines have @key, and the sum of their "count"s beyond approvals. */
struct lines {
	unsigned int approvals, denied, expired, by_people;
	unsigned int again, left_out;
	int64_t n_again, n_left_out;
};

static void look_at(const struct json *j, struct lines *l)
{
	const struct json *a = json_get(j, "approval");
	const struct json *again = json_get(j, "again");
	const struct json *out = json_get(j, "left_out");
	const char *state = json_str_or(a, "state", "");
	int64_t number = json_int_or(a, "number", 0);

	l->approvals += a != NULL;
	l->denied += strcmp(state, "denied") == 0;
	l->expired += strcmp(state, "expired") == 0;
	l->by_people += number >= 1000 * 1000;
	l->again += again != NULL;
	l->left_out += out != NULL;
	l->n_again = again ? json_int_or(again, "count", 0) : l->n_again;
	l->n_left_out = out ? json_int_or(out, "count", 0) : l->n_left_out;
}

static size_t end(struct world *w, struct lines *ret)
{
	static const struct json_limits limits = { .bytes = 64 * 1024,
						   .depth = 8,
						   .values = 1024 };
	auto_(buf) struct buf text = BUF_INIT;
	char path[40], *at, *line;
	struct stat st;

	audit_close(w->audit);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", w->fd);
	assert_int_equal(fd_read_file(AT_FDCWD, path, 8 << 20, &text), 0);
	assert_int_equal(fstat(w->fd, &st), 0);
	*ret = (struct lines){ 0 };
	at = text.data;
	while ((line = strsep(&at, "\n"))) {
		auto_ptr(json_free) struct json *j = NULL;

		if (!*line)
			continue;
		assert_int_equal(json_parse(line, strlen(line), &limits, "line",
					    &j, NULL),
				 0);
		assert_string_equal(json_str_or(j, "sandbox", ""), "box");
		look_at(j, ret);
	}
	(void)close(w->fd);
	return (size_t)st.st_size;
}

static void test_the_same_again_is_counted(void **state)
{
	struct lines l;
	struct world w;

	begin(&w);
	for (unsigned int i = 1; i <= 1235; i++)
		tell(&w, i, "/etc/passwd", 0, true, APPROVAL_ANSWERED);
	tell(&w, 1236, "/etc/passwd", EPERM, true, APPROVAL_ANSWERED);
	(void)end(&w, &l);
	/* 10, 100, 1000, and the rest when something else comes. */
	assert_int_equal(l.approvals, 2);
	assert_int_equal(l.denied, 1);
	assert_int_equal(l.again, 4);
	assert_int_equal(l.n_again, 1234);
	assert_int_equal(l.left_out, 0);
}

enum { FLOOD = 20 * 1000 };

static void test_a_flood_is_cut_and_says_so(void **state)
{
	struct lines l;
	struct world w;
	char path[64];
	size_t size;

	begin(&w);
	for (unsigned int i = 1; i <= FLOOD; i++) {
		(void)snprintf(path, sizeof(path), "/flood/%u", i);
		tell(&w, i, path, 0, true, APPROVAL_ANSWERED);
	}
	/* There is room for what was not allowed, a while. */
	tell(&w, FLOOD + 1, "/denied", EACCES, true, APPROVAL_ANSWERED);
	tell(&w, FLOOD + 2, "/expired", EPERM, false, APPROVAL_EXPIRED);
	for (unsigned int i = 3; i <= FLOOD; i++) {
		(void)snprintf(path, sizeof(path), "/withdrawn/%u", i);
		tell(&w, FLOOD + i, path, EPERM, false, APPROVAL_CANCELLED);
	}
	for (unsigned int i = 0; i < 100; i++) {
		(void)snprintf(path, sizeof(path), "/asked/%u", i % 10);
		tell(&w, 1000 * 1000 + i, path, i % 2 ? EPERM : 0, false,
		     APPROVAL_ANSWERED);
	}
	size = end(&w, &l);
	assert_int_equal(l.by_people, 100);
	assert_int_equal(l.denied, 1 + 50);
	assert_int_equal(l.expired, 1);
	assert_true(size > AUDIT_BURST / 2);
	assert_true(size < AUDIT_BURST + 128 * 1024);
	assert_true(l.left_out > 1);
	assert_int_equal(l.n_left_out + l.approvals - l.by_people, 2 * FLOOD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_same_again_is_counted),
		cmocka_unit_test(test_a_flood_is_cut_and_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
