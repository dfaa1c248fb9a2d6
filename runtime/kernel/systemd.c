#include "kernel/systemd.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/helper.h"
#include "kernel/userns.h"

#define SERVICE "org.freedesktop.systemd1"
#define OBJECT "/org/freedesktop/systemd1"

/* systemd answers at once: what takes time are its jobs. */
enum { CALL_TIMEOUT_S = 25 };

void systemd_props_done(struct systemd_props *p)
{
	buf_done(&p->words);
}

static void add_word(struct buf *words, const char *word)
{
	buf_add(words, word, strlen(word) + 1);
}

static void add_property(struct systemd_props *p, const char *name,
			 const char *type)
{
	add_word(&p->words, name);
	add_word(&p->words, type);
	p->n++;
}

void systemd_add_text(struct systemd_props *p, const char *name,
		      const char *value)
{
	add_property(p, name, "s");
	add_word(&p->words, value);
}

void systemd_add_bool(struct systemd_props *p, const char *name, bool value)
{
	add_property(p, name, "b");
	add_word(&p->words, value ? "true" : "false");
}

void systemd_add_number(struct systemd_props *p, const char *name, uint64_t v)
{
	add_property(p, name, "t");
	buf_printf(&p->words, "%" PRIu64 "%c", v, 0);
}

void systemd_add_pid(struct systemd_props *p, const char *name, pid_t pid)
{
	add_property(p, name, "au");
	buf_printf(&p->words, "1%c%d%c", 0, (int)pid, 0);
}

void systemd_add_bytes(struct systemd_props *p, const char *name,
		       const uint8_t *v, size_t n)
{
	add_property(p, name, "ay");
	buf_printf(&p->words, "%zu%c", n, 0);
	for (size_t i = 0; i < n; i++)
		buf_printf(&p->words, "%u%c", v[i], 0);
}

void systemd_add_pairs(struct systemd_props *p, const char *name, size_t n,
		       const struct buf *pairs)
{
	add_property(p, name, "a(ss)");
	buf_printf(&p->words, "%zu%c", n, 0);
	buf_add(&p->words, pairs->data, pairs->len);
	p->words.failed = p->words.failed || buf_failed(pairs);
}

/* As the specification of D-Bus wants the values in an address. */
static void add_path(struct buf *address, const char *path)
{
	for (; *path; path++) {
		if (isalnum((unsigned char)*path) || strchr("-_/.", *path))
			buf_add_char(address, *path);
		else
			buf_printf(address, "%%%02x", (unsigned char)*path);
	}
}

/* In a user namespace the bus is that of whoever we are outside. */
static void add_address(bool user, struct buf *words)
{
	const char *said = getenv(user ? "DBUS_SESSION_BUS_ADDRESS"
				       : "DBUS_SYSTEM_BUS_ADDRESS");
	const char *dir = getenv("XDG_RUNTIME_DIR");

	buf_add_str(words, "--address=");
	if (said && *said) {
		buf_add_str(words, said);
	} else if (!user) {
		buf_add_str(words, "unix:path=/run/dbus/system_bus_socket");
	} else {
		buf_add_str(words, "unix:path=");
		if (dir && *dir == '/')
			add_path(words, dir);
		else
			buf_printf(words, "/run/user/%u", userns_initial_uid());
		buf_add_str(words, "/bus");
	}
	buf_add_char(words, '\0');
}

static int start_words(bool user, const char *verb, struct buf *words,
		       struct error *err)
{
	char path[HELPER_PATH_MAX];

	if (!helper_find("busctl", path)) {
		(void)error_say(err, ERR_UNSUPPORTED, ENOENT,
				"cannot talk to systemd: 'busctl' is not "
				"installed");
		return error_hint(err, "it comes with systemd; "
				       "--cgroup-manager=cgroupfs does without "
				       "both");
	}
	add_word(words, path);
	add_address(user, words);
	buf_printf(words, "--timeout=%d%c", CALL_TIMEOUT_S, 0);
	add_word(words, "--allow-interactive-authorization=no");
	/* It takes options everywhere, and values may begin with a dash. */
	add_word(words, "--");
	add_word(words, verb);
	add_word(words, SERVICE);
	return 0;
}

/* Whether the host was booted by it: sd_booted(3). */
static bool is_running(void)
{
	return access("/run/systemd/system", F_OK) == 0;
}

static int refused(bool user, const char *what, const char *unit,
		   const char *text, struct error *err)
{
	static const char prefix[] = "Call failed: ";

	if (strncmp(text, prefix, strlen(prefix)) == 0)
		return error_say(err, ERR_SYSTEM, EIO,
				 "systemd did not %s '%s': %s", what, unit,
				 text + strlen(prefix));
	(void)error_say(err, ERR_UNSUPPORTED, ENOTCONN,
			is_running() ? "cannot ask systemd to %s '%s': %s"
				     : "systemd is not running here, to %s "
				       "'%s': %s",
			what, unit, text);
	if (user && is_running())
		return error_hint(err, "is there a session of yours? See "
				       "'loginctl enable-linger', or use "
				       "--cgroup-manager=cgroupfs");
	return error_hint(err, "use --cgroup-manager=cgroupfs");
}

/* @ret: what it has answered, of HELPER_TEXT_MAX bytes; may be NULL. */
static int call(bool user, const struct buf *words, const char *what,
		const char *unit, char *ret, struct error *err)
{
	auto_(helper) struct helper h = HELPER_INIT;
	char text[HELPER_TEXT_MAX] = "";
	int r = helper_start(&h, words);

	if (r == 0)
		r = helper_wait(&h, text, sizeof(text));
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot ask systemd to %s '%s'", what, unit);
	if (r > 0)
		return refused(user, what, unit, text, err);
	if (ret)
		memcpy(ret, text, sizeof(text));
	return 0;
}

/* A method of the manager with the signature @types. */
static int start_method(bool user, const char *method, const char *types,
			struct buf *words, struct error *err)
{
	int r = start_words(user, "call", words, err);

	if (r < 0)
		return r;
	add_word(words, OBJECT);
	add_word(words, SERVICE ".Manager");
	add_word(words, method);
	add_word(words, types);
	return 0;
}

static void add_props(struct buf *words, const struct systemd_props *p)
{
	buf_printf(words, "%zu%c", p->n, 0);
	buf_add(words, p->words.data, p->words.len);
	words->failed = words->failed || buf_failed(&p->words);
}

int systemd_start_scope(bool user, const char *unit,
			const struct systemd_props *p, struct error *err)
{
	auto_(buf) struct buf words = BUF_INIT;
	int r = start_method(user, "StartTransientUnit", "ssa(sv)a(sa(sv))",
			     &words, err);

	if (r < 0)
		return r;
	add_word(&words, unit);
	add_word(&words, "replace");
	add_props(&words, p);
	add_word(&words, "0");
	return call(user, &words, "start", unit, NULL, err);
}

int systemd_set(bool user, const char *unit, const struct systemd_props *p,
		struct error *err)
{
	auto_(buf) struct buf words = BUF_INIT;
	int r;

	if (p->n == 0)
		return 0;
	r = start_method(user, "SetUnitProperties", "sba(sv)", &words, err);
	if (r < 0)
		return r;
	add_word(&words, unit);
	add_word(&words, "true");
	add_props(&words, p);
	return call(user, &words, "change", unit, NULL, err);
}

int systemd_attach(bool user, const char *unit, pid_t pid, struct error *err)
{
	auto_(buf) struct buf words = BUF_INIT;
	int r = start_method(user, "AttachProcessesToUnit", "ssau", &words,
			     err);

	if (r < 0)
		return r;
	add_word(&words, unit);
	add_word(&words, "");
	buf_printf(&words, "1%c%d%c", 0, (int)pid, 0);
	return call(user, &words, "move a process into", unit, NULL, err);
}

int systemd_stop(bool user, const char *unit, struct error *err)
{
	auto_(buf) struct buf words = BUF_INIT;
	int r = start_method(user, "StopUnit", "ss", &words, err);

	if (r < 0)
		return r;
	add_word(&words, unit);
	add_word(&words, "replace");
	return call(user, &words, "stop", unit, NULL, err);
}

int systemd_reset_failed(bool user, const char *unit, struct error *err)
{
	auto_(buf) struct buf words = BUF_INIT;
	int r = start_method(user, "ResetFailedUnit", "s", &words, err);

	if (r < 0)
		return r;
	add_word(&words, unit);
	return call(user, &words, "reset", unit, NULL, err);
}

/* The path of a unit's object: what is no letter or digit as _XX. */
static void add_object(struct buf *words, const char *unit)
{
	buf_add_str(words, OBJECT "/unit/");
	for (size_t i = 0; unit[i]; i++) {
		unsigned char c = (unsigned char)unit[i];

		if (isalpha(c) || (i > 0 && isdigit(c)))
			buf_add_char(words, (char)c);
		else
			buf_printf(words, "_%02x", c);
	}
	buf_add_char(words, '\0');
}

int systemd_state(bool user, const char *unit, enum systemd_state *ret,
		  struct error *err)
{
	auto_(buf) struct buf words = BUF_INIT;
	char text[HELPER_TEXT_MAX];
	int r = start_words(user, "get-property", &words, err);

	if (r < 0)
		return r;
	add_object(&words, unit);
	add_word(&words, SERVICE ".Unit");
	add_word(&words, "LoadState");
	add_word(&words, "ActiveState");
	add_word(&words, "Job");
	r = call(user, &words, "tell about", unit, text, err);
	if (r < 0)
		return r;
	if (strstr(text, "\"active\""))
		*ret = SYSTEMD_STARTED;
	else if (strstr(text, "\"not-found\""))
		*ret = SYSTEMD_ABSENT;
	else if (strstr(text, "(uo) 0 ") || strstr(text, "\"failed\""))
		*ret = SYSTEMD_ENDED;
	else
		*ret = SYSTEMD_WAITING;
	return 0;
}
