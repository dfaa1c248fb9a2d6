/* The protocol, and a server against clients in this process. */
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/json.h"
#include "control/client.h"
#include "control/peer.h"
#include "control/server.h"
#include "kernel/pidfd.h"
#include "unit.h"

CLEANUP_PTR(struct json, json_free);

static struct control_server *serve_in(const struct rundir_slot *slot,
				       control_answer_fn *answer)
{
	struct control_server *s = NULL;
	int fd;

	assert_int_equal(control_server_bind(rundir_slot_fd(slot), &fd, NULL),
			 0);
	assert_int_equal(control_server_adopt(fd, answer, NULL, &s, NULL), 0);
	return s;
}

static const char *parse_error(const char *body)
{
	static struct error err;
	struct control_request q = { .fd = -1 };

	err = (struct error)ERROR_INIT;
	assert_true(control_parse(body, strlen(body), &q, &err) < 0);
	assert_null(q.root);
	return err.msg;
}

static void what_is_no_request_is_told(void **state)
{
	static const char *const broken[] = {
		"",
		"{",
		"[]",
		"1",
		"{}",
		"{\"v\":\"1\",\"verb\":\"x\"}",
		"{\"v\":1}",
		"{\"v\":1,\"verb\":2}",
		"{\"v\":1,\"verb\":\"x\",\"args\":[]}",
	};

	for (size_t i = 0; i < ARRAY_LEN(broken); i++)
		assert_ptr_equal(
			strstr(parse_error(broken[i]), "parse error: "),
			parse_error(broken[i]));
	assert_string_equal(parse_error("{\"v\":9,\"verb\":\"x\"}"),
			    "unsupported protocol version: 9");
}

static void an_answer_is_whole_or_says_that_it_is_too_long(void **state)
{
	char text[CONTROL_BODY_MAX];
	/* {"v":1,"ok":true,"data":"..."} */
	size_t around = strlen("{\"v\":1,\"ok\":true,\"data\":\"\"}");

	for (size_t over = 0; over < 2; over++) {
		size_t n = CONTROL_BODY_MAX - around + over + 2;
		auto_(buf) struct buf frame = BUF_INIT;

		memset(text, 'x', n);
		text[0] = text[n - 1] = '"';
		text[n] = '\0';
		assert_int_equal(control_answer(&frame, text, NULL), 0);
		if (over)
			assert_non_null(strstr(frame.data + CONTROL_HEADER,
					       "response too large (65537 "
					       "bytes, max 65536)"));
		else
			assert_int_equal(frame.len,
					 CONTROL_HEADER + CONTROL_BODY_MAX);
	}
}

static int echo(void *data, const struct control_request *q, struct buf *ret,
		struct error *err)
{
	if (strcmp(q->verb, "ports") != 0)
		return error_say(err, ERR_USAGE, EINVAL, "unknown verb: %s",
				 q->verb);
	buf_add_str(ret, "{\"80\":8080}");
	return 0;
}

/* Writes to what it was sent, and says whether that was anything. */
static int write_to_it(void *data, const struct control_request *q,
		       struct buf *ret, struct error *err)
{
	if (q->fd < 0)
		return error_say(err, ERR_USAGE, EINVAL, "nothing came along");
	assert_int_equal(write(q->fd, "x", 1), 1);
	buf_add_str(ret, "{}");
	return 0;
}

static void an_fd_comes_along_to_a_socket_of_another(void **state)
{
	auto_ptr(rundir_close) struct rundir *d = NULL;
	auto_ptr(rundir_slot_close) struct rundir_slot *slot = NULL;
	struct json *answer = NULL;
	struct control_server *s = NULL;
	struct error err = ERROR_INIT;
	char path[256], root[300], byte = '\0';
	struct control_call call = { .name = "x", .verb = "listen" };
	int fd = unit_tmpdir(path), listen_fd = -1, ends[2];

	(void)snprintf(root, sizeof(root), "%s/run", path);
	assert_int_equal(rundir_open(root, true, &d, NULL), 0);
	assert_int_equal(rundir_claim(d, "x", &slot, NULL), 0);
	assert_int_equal(
		control_server_bind(rundir_slot_fd(slot), &listen_fd, NULL), 0);
	assert_int_equal(
		control_server_adopt(listen_fd, write_to_it, NULL, &s, NULL),
		0);
	assert_int_equal(control_server_begin(s, NULL), 0);
	assert_int_equal(pipe(ends), 0);
	call.pass_fd = &ends[1];
	assert_int_equal(control_begin(d, &call, NULL), 0);
	/* It is on its way. */
	(void)close(ends[1]);
	assert_int_equal(control_finish(d, &call, NULL), 0);
	assert_non_null(call.answer);
	control_drop(&call);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(byte, 'x');
	/* It was not kept: that was the last one. */
	assert_int_equal(read(ends[0], &byte, 1), 0);
	assert_true(control_ask(d, "x", "listen", NULL, &answer, &err) < 0);
	assert_string_equal(err.msg, "nothing came along");
	control_server_stop(s);
	(void)close(ends[0]);
	assert_int_equal(rundir_remove(slot, NULL), 0);
	assert_int_equal(rmdir(root), 0);
	assert_int_equal(rmdir(path), 0);
	(void)close(fd);
}

static void a_server_answers_and_ends(void **state)
{
	auto_ptr(rundir_close) struct rundir *d = NULL;
	auto_ptr(rundir_slot_close) struct rundir_slot *slot = NULL;
	auto_ptr(json_free) struct json *answer = NULL;
	struct control_server *s = NULL;
	struct error err = ERROR_INIT;
	char path[256], root[300];
	int fd = unit_tmpdir(path);

	(void)snprintf(root, sizeof(root), "%s/run", path);
	assert_int_equal(rundir_open(root, true, &d, NULL), 0);
	assert_int_equal(rundir_claim(d, "x", &slot, NULL), 0);
	assert_true(control_ask(d, "x", "ports", NULL, &answer, &err) < 0);
	assert_string_equal(err.msg,
			    "'x' is starting, and has no control socket yet");
	rundir_unlock(slot);
	assert_true(control_ask(d, "x", "ports", NULL, &answer, &err) < 0);
	assert_string_equal(err.msg, "'x' has no control socket");
	s = serve_in(slot, echo);
	assert_true(control_server_fd(s) >= 0);
	assert_int_equal(control_server_begin(s, NULL), 0);
	assert_int_equal(control_server_fd(s), -1);
	assert_int_equal(control_ask(d, "x", "ports", NULL, &answer, NULL), 0);
	assert_int_equal(json_int_or(answer, "80", 0), 8080);
	assert_true(control_ask(d, "x", "frob", NULL, &answer, &err) < 0);
	assert_string_equal(err.msg, "unknown verb: frob");
	control_server_stop(s);
	assert_true(control_ask(d, "x", "ports", NULL, &answer, &err) < 0);
	assert_string_equal(err.msg, "supervisor of 'x' is not running");
	assert_int_equal(rundir_remove(slot, NULL), 0);
	assert_int_equal(rmdir(root), 0);
	assert_int_equal(rmdir(path), 0);
	(void)close(fd);
}

struct seen {
	struct control_server *server;
	int n, wanted;
};

static int publish_three(void *data)
{
	struct seen *s = data;

	for (int i = 0; i < 3; i++)
		control_server_publish(s->server, "denial", "{\"id\":7}");
	return 0;
}

static int count_event(void *data, const struct json *e)
{
	struct seen *s = data;

	assert_string_equal(json_str_or(e, "event", ""), "denial");
	assert_int_equal(json_int_or(json_get(e, "data"), "id", 0), 7);
	return ++s->n == s->wanted ? 99 : 0;
}

/* More than fits anywhere: it does not read, so it is dropped. */
static int publish_much(void *data)
{
	struct seen *s = data;
	char text[40000];

	memset(text, 'x', sizeof(text));
	text[0] = text[sizeof(text) - 2] = '"';
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 100; i++)
		control_server_publish(s->server, "denial", text);
	return 0;
}

static int ignore_event(void *data, const struct json *e)
{
	((struct seen *)data)->n++;
	return 0;
}

static void subscribers_are_told_and_slow_ones_dropped(void **state)
{
	auto_ptr(rundir_close) struct rundir *d = NULL;
	auto_ptr(rundir_slot_close) struct rundir_slot *slot = NULL;
	auto_ptr(json_free) struct json *answer = NULL;
	struct seen s = { .wanted = 3 };
	struct error err = ERROR_INIT;
	char path[256], root[300];
	int fd = unit_tmpdir(path), ends[2];

	(void)snprintf(root, sizeof(root), "%s/run", path);
	assert_int_equal(rundir_open(root, true, &d, NULL), 0);
	assert_int_equal(rundir_claim(d, "x", &slot, NULL), 0);
	rundir_unlock(slot);
	assert_true(control_subscribe(d, "x", NULL, NULL, count_event, &s,
				      &err) < 0);
	assert_string_equal(err.msg, "'x' has no control socket");
	control_server_publish(NULL, "denial", "{}");
	s.server = serve_in(slot, echo);
	assert_int_equal(control_server_begin(s.server, NULL), 0);
	assert_int_equal(control_subscribe(d, "x", NULL, publish_three,
					   count_event, &s, &err),
			 99);
	assert_int_equal(s.n, 3);
	s.n = 0;
	assert_int_equal(control_subscribe(d, "x", NULL, publish_much,
					   ignore_event, &s, &err),
			 0);
	assert_in_range(s.n, 0, 99);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	(void)close(ends[1]);
	assert_int_equal(control_subscribe(d, "x", &ends[0], NULL, ignore_event,
					   &s, &err),
			 -ECANCELED);
	(void)close(ends[0]);
	assert_int_equal(control_ask(d, "x", "ports", NULL, &answer, NULL), 0);
	control_server_stop(s.server);
	assert_int_equal(rundir_remove(slot, NULL), 0);
	assert_int_equal(rmdir(root), 0);
	assert_int_equal(rmdir(path), 0);
	(void)close(fd);
}

/* What is to be written to was named by another process. */
static void only_a_pipe_is_opened_to_prove_something(void **state)
{
	char path[] = "/tmp/test-control-XXXXXX";
	auto_close int fd = mkstemp(path);
	auto_close int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct proc_id id;
	char event[512];
	int fds[2];

	assert_true(fd >= 0 && watch >= 0);
	assert_true(inotify_add_watch(watch, path, IN_OPEN) >= 0);
	assert_int_equal(peer_prove(getpid(), fd), -EINVAL);
	assert_int_equal(read(watch, event, sizeof(event)), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(peer_prove(getpid(), fds[1]), 0);
	assert_int_equal(read(fds[0], &id, sizeof(id)), sizeof(id));
	assert_int_equal(id.pid, getpid());
	(void)close(fds[0]);
	(void)close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_request_is_told),
		cmocka_unit_test(
			an_answer_is_whole_or_says_that_it_is_too_long),
		cmocka_unit_test(a_server_answers_and_ends),
		cmocka_unit_test(an_fd_comes_along_to_a_socket_of_another),
		cmocka_unit_test(only_a_pipe_is_opened_to_prove_something),
		cmocka_unit_test(subscribers_are_told_and_slow_ones_dropped),
	};

	return RUN_TESTS(tests);
}
