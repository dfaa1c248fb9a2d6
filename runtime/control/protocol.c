#include "control/protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"

CLEANUP_PTR(struct json_out, json_out_free);
CLEANUP_PTR(struct json, json_free);

const char control_socket_name[] = "control.sock";

/* A frame of 64 KiB holds no more than that. */
static const struct json_limits limits = { CONTROL_BODY_MAX, 32, 32768 };

static void put_length(unsigned char header[CONTROL_HEADER], size_t len)
{
	for (int i = 0; i < CONTROL_HEADER; i++)
		header[i] = (unsigned char)(len >> (24 - 8 * i));
}

size_t control_get_length(const unsigned char header[CONTROL_HEADER])
{
	size_t len = 0;

	for (int i = 0; i < CONTROL_HEADER; i++)
		len = len << 8 | header[i];
	return len;
}

void control_request_done(struct control_request *r)
{
	cleanup_close(&r->fd);
	r->fd = -1;
	json_free(r->root);
	r->root = NULL;
}

static int check_request(struct control_request *q, struct error *err)
{
	const struct json *v = json_get(q->root, "v");
	const struct json *verb = json_get(q->root, "verb");
	const struct json *args = json_get(q->root, "args");

	if (q->root->type != JSON_OBJECT)
		return error_say(err, ERR_USAGE, EINVAL,
				 "parse error: the request is no object");
	if (!v || v->type != JSON_NUMBER)
		return error_say(err, ERR_USAGE, EINVAL,
				 "parse error: 'v' is no number");
	if (strcmp(v->text, "1") != 0)
		return error_say(err, ERR_USAGE, EINVAL,
				 "unsupported protocol version: %.32s",
				 v->text);
	if (!verb || verb->type != JSON_STRING)
		return error_say(err, ERR_USAGE, EINVAL,
				 "parse error: 'verb' is no string");
	if (args && args->type != JSON_OBJECT && args->type != JSON_NULL)
		return error_say(err, ERR_USAGE, EINVAL,
				 "parse error: 'args' is no object");
	q->verb = verb->text;
	q->args = args && args->type == JSON_OBJECT ? args : NULL;
	return 0;
}

int control_parse(const char *body, size_t len, struct control_request *ret,
		  struct error *err)
{
	struct control_request q = { .fd = -1 };
	struct error local = ERROR_INIT;
	int r = json_parse(body, len, &limits, "request", &q.root, &local);

	if (r < 0)
		return error_say(err, ERR_USAGE, EINVAL, "parse error: %s",
				 local.msg);
	r = check_request(&q, err);
	if (r < 0)
		control_request_done(&q);
	else
		*ret = q;
	return r;
}

static int add_failure(struct buf *b, const char *why)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);

	json_out_object(o);
	json_out_int_member(o, "v", CONTROL_VERSION);
	json_out_bool_member(o, "ok", false);
	json_out_str_member(o, "err", why);
	json_out_object_end(o);
	return json_out_end(o, b);
}

static int add_frame(struct buf *frame, const struct buf *body)
{
	unsigned char header[CONTROL_HEADER];

	if (buf_failed(body))
		return -ENOMEM;
	put_length(header, body->len);
	buf_add(frame, header, sizeof(header));
	buf_add(frame, body->data, body->len);
	return buf_failed(frame) ? -ENOMEM : 0;
}

int control_demand(struct buf *frame, pid_t pid, int fd)
{
	auto_(buf) struct buf body = BUF_INIT;

	buf_printf(&body,
		   "{\"v\":%d,\"ok\":false,\"err\":\"permission denied\","
		   "\"prove\":{\"pid\":%d,\"fd\":%d}}",
		   CONTROL_VERSION, (int)pid, fd);
	return add_frame(frame, &body);
}

bool control_read_demand(const char *body, size_t len, pid_t *ret_pid,
			 int *ret_fd)
{
	auto_ptr(json_free) struct json *root = NULL;
	const struct json *prove;

	if (json_parse(body, len, &limits, "answer", &root, NULL) < 0)
		return false;
	prove = json_get(root, "prove");
	*ret_pid = (pid_t)json_int_or(prove, "pid", 0);
	*ret_fd = (int)json_int_or(prove, "fd", -1);
	return *ret_pid > 0 && *ret_fd >= 0;
}

int control_request(struct buf *frame, const char *verb, const char *args)
{
	auto_(buf) struct buf body = BUF_INIT;

	buf_printf(&body, "{\"v\":%d,\"verb\":\"%s\",\"args\":%s}",
		   CONTROL_VERSION, verb, args ? args : "{}");
	return body.len > CONTROL_BODY_MAX ? -EMSGSIZE
					   : add_frame(frame, &body);
}

int control_event(struct buf *frame, const char *event, const char *data)
{
	auto_(buf) struct buf body = BUF_INIT;

	buf_printf(&body, "{\"v\":1,\"event\":\"%s\",\"data\":%s}", event,
		   data);
	return body.len > CONTROL_BODY_MAX ? -EMSGSIZE
					   : add_frame(frame, &body);
}

int control_answer(struct buf *frame, const char *data, const char *why)
{
	auto_(buf) struct buf body = BUF_INIT;
	char text[80];
	int r = 0;

	if (data)
		buf_printf(&body, "{\"v\":1,\"ok\":true,\"data\":%s}", data);
	else
		r = add_failure(&body, why);
	if (body.len > CONTROL_BODY_MAX) {
		(void)snprintf(text, sizeof(text),
			       "response too large (%zu bytes, max %d)",
			       body.len, CONTROL_BODY_MAX);
		buf_clear(&body);
		r = add_failure(&body, text);
	}
	return r < 0 ? -ENOMEM : add_frame(frame, &body);
}

int control_read_answer(const char *body, size_t len, struct json **ret,
			struct error *err)
{
	auto_ptr(json_free) struct json *root = NULL;
	int r = json_parse(body, len, &limits, "answer", &root, err);

	if (r < 0)
		return r;
	if (!json_bool_or(root, "ok", false))
		return error_say(
			err, ERR_STATE, EPROTO, "%s",
			json_str_or(root, "err", "the answer is malformed"));
	json_narrow(root, json_get(root, "data"));
	*ret = take_ptr(&root);
	return 0;
}

int control_read_event(const char *body, size_t len, struct json **ret,
		       struct error *err)
{
	auto_ptr(json_free) struct json *root = NULL;
	int r = json_parse(body, len, &limits, "event", &root, err);

	if (r < 0)
		return r;
	if (!json_str_or(root, "event", NULL))
		return error_say(err, ERR_STATE, EPROTO,
				 "the event is malformed");
	*ret = take_ptr(&root);
	return 0;
}
