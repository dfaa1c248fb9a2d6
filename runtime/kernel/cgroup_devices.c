/*
 * Device rules: in order, the last one that speaks about an access decides it,
 * bit by bit (read, write, mknod); what no rule speaks about is allowed. v1
 * works like that when the rules are written one by one, for v2 a BPF program
 * does.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "kernel/cgroup_internal.h"
#include "spec/spec.h"

enum { ANY = -1, PROGS_MAX = 64 };

/* What every container gets, after its own rules, as with runc. */
/* clang-format off */
static const struct spec_device_rule default_rules[] = {
	{ true, 'c', ANY, ANY, false, false, true },
	{ true, 'b', ANY, ANY, false, false, true },
	{ true, 'c', 1, 3, true, true, true },	   /* null */
	{ true, 'c', 1, 5, true, true, true },	   /* zero */
	{ true, 'c', 1, 7, true, true, true },	   /* full */
	{ true, 'c', 1, 8, true, true, true },	   /* random */
	{ true, 'c', 1, 9, true, true, true },	   /* urandom */
	{ true, 'c', 5, 0, true, true, true },	   /* tty */
	{ true, 'c', 5, 2, true, true, true },	   /* ptmx */
	{ true, 'c', 136, ANY, true, true, true }, /* pts */
};
/* clang-format on */

size_t cgroup_rule_count(const struct spec_resources *r)
{
	return r->n_devices + ARRAY_LEN(default_rules);
}

const struct spec_device_rule *cgroup_rule_at(const struct spec_resources *r,
					      size_t i)
{
	return i < r->n_devices ? &r->devices[i]
				: &default_rules[i - r->n_devices];
}

bool cgroup_rule_decides_all(const struct spec_device_rule *r)
{
	return r->type == 'a' && r->major < 0 && r->minor < 0 && r->read &&
	       r->write && r->mknod;
}

static void format_number(char *text, size_t size, int64_t v)
{
	if (v < 0)
		(void)snprintf(text, size, "*");
	else
		(void)snprintf(text, size, "%lld", (long long)v);
}

/* devices.allow and devices.deny, each opened once. */
struct rule_files {
	const char *dir;
	int fd[2];
};

static int write_text(struct rule_files *f, bool allow, const char *text,
		      struct error *err)
{
	const char *file = allow ? "devices.allow" : "devices.deny";
	int *fd = &f->fd[allow];
	char path[PATH_MAX];
	int e = 0;

	if (*fd < 0) {
		e = cgroup_file_path(f->dir, file, path);
		*fd = e < 0 ? -1 : open(path, O_WRONLY | O_CLOEXEC);
		if (e == 0 && *fd < 0)
			e = -errno;
	}
	if (e == 0)
		e = fd_write_full(*fd, text, strlen(text));
	if (e < 0)
		return error_set(err, ERR_SYSTEM, -e, "cannot set '%s' to '%s'",
				 file, text);
	return 0;
}

static int write_rule(struct rule_files *f, const struct spec_device_rule *rule,
		      char type, struct error *err)
{
	char major[CGROUP_NUMBER_MAX], minor[CGROUP_NUMBER_MAX], text[96];

	format_number(major, sizeof(major), rule->major);
	format_number(minor, sizeof(minor), rule->minor);
	(void)snprintf(text, sizeof(text), "%c %s:%s %s%s%s", type, major,
		       minor, rule->read ? "r" : "", rule->write ? "w" : "",
		       rule->mknod ? "m" : "");
	return write_text(f, rule->allow, text, err);
}

static int put_rule(struct rule_files *f, const struct spec_device_rule *rule,
		    struct error *err)
{
	int e;

	if (!rule->read && !rule->write && !rule->mknod)
		return 0;
	if (rule->type != 'a')
		return write_rule(f, rule, rule->type, err);
	if (cgroup_rule_decides_all(rule))
		return write_text(f, rule->allow, "a", err);
	/* To the kernel "a" is everything, whatever follows. */
	e = write_rule(f, rule, 'b', err);
	return e < 0 ? e : write_rule(f, rule, 'c', err);
}

int cgroup_v1_devices(const char *dir, const struct spec_resources *r,
		      struct error *err)
{
	struct rule_files f = { .dir = dir, .fd = { -1, -1 } };
	int e = 0;

	for (size_t i = 0; e == 0 && i < cgroup_rule_count(r); i++)
		e = put_rule(&f, cgroup_rule_at(r, i), err);
	cleanup_close(&f.fd[0]);
	cleanup_close(&f.fd[1]);
	return e;
}

/* The program under construction. */
struct program {
	struct buf insns;
};

static void emit(struct program *p, uint8_t code, uint8_t dst, uint8_t src,
		 int16_t off, int32_t imm)
{
	struct bpf_insn insn = { .code = code,
				 .dst_reg = dst & 0xf,
				 .src_reg = src & 0xf,
				 .off = off,
				 .imm = imm };

	buf_add(&p->insns, &insn, sizeof(insn));
}

enum {
	REG_RESULT = 0,
	REG_CTX = 1,
	REG_TYPE = 2,
	REG_LEFT = 3,
	REG_MAJOR = 4,
	REG_MINOR = 5,
	REG_BITS = 6
};

static void emit_return(struct program *p, int value)
{
	emit(p, BPF_ALU64 | BPF_MOV | BPF_K, REG_RESULT, 0, 0, value);
	emit(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void emit_prologue(struct program *p)
{
	/* struct bpf_cgroup_dev_ctx: access << 16 | type, major, minor */
	emit(p, BPF_LDX | BPF_MEM | BPF_W, REG_TYPE, REG_CTX, 0, 0);
	emit(p, BPF_ALU | BPF_MOV | BPF_X, REG_LEFT, REG_TYPE, 0, 0);
	emit(p, BPF_ALU | BPF_AND | BPF_K, REG_TYPE, 0, 0, 0xffff);
	emit(p, BPF_ALU | BPF_RSH | BPF_K, REG_LEFT, 0, 0, 16);
	emit(p, BPF_LDX | BPF_MEM | BPF_W, REG_MAJOR, REG_CTX, 4, 0);
	emit(p, BPF_LDX | BPF_MEM | BPF_W, REG_MINOR, REG_CTX, 8, 0);
}

static int access_bits(const struct spec_device_rule *r)
{
	return (r->read ? BPF_DEVCG_ACC_READ : 0) |
	       (r->write ? BPF_DEVCG_ACC_WRITE : 0) |
	       (r->mknod ? BPF_DEVCG_ACC_MKNOD : 0);
}

/*
 * Backwards through the rules: a deny that covers an undecided bit ends it, an
 * allow takes its bits out, and when none is left the access is allowed.
 */
static void emit_rule(struct program *p, const struct spec_device_rule *r)
{
	bool type = r->type != 'a', major = r->major >= 0,
	     minor = r->minor >= 0;
	/* Instructions behind the comparisons, to be jumped over. */
	int16_t rest = (int16_t)(r->allow ? 4 : 5);
	int16_t skip = (int16_t)(rest + type + major + minor);
	int bits = access_bits(r);

	if (type)
		emit(p, BPF_JMP | BPF_JNE | BPF_K, REG_TYPE, 0, --skip,
		     r->type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR);
	if (major)
		emit(p, BPF_JMP | BPF_JNE | BPF_K, REG_MAJOR, 0, --skip,
		     (int32_t)r->major);
	if (minor)
		emit(p, BPF_JMP | BPF_JNE | BPF_K, REG_MINOR, 0, --skip,
		     (int32_t)r->minor);
	if (r->allow) {
		emit(p, BPF_ALU | BPF_AND | BPF_K, REG_LEFT, 0, 0, ~bits);
		emit(p, BPF_JMP | BPF_JNE | BPF_K, REG_LEFT, 0, 2, 0);
		emit_return(p, 1);
		return;
	}
	emit(p, BPF_ALU | BPF_MOV | BPF_X, REG_BITS, REG_LEFT, 0, 0);
	emit(p, BPF_ALU | BPF_AND | BPF_K, REG_BITS, 0, 0, bits);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, REG_BITS, 0, 2, 0);
	emit_return(p, 0);
}

static void build(struct program *p, const struct spec_resources *r)
{
	emit_prologue(p);
	for (size_t i = cgroup_rule_count(r); i-- > 0;) {
		const struct spec_device_rule *rule = cgroup_rule_at(r, i);

		/* Out of the kernel's range: matches no device. */
		if (rule->major > INT32_MAX || rule->minor > INT32_MAX ||
		    !access_bits(rule))
			continue;
		/* Nothing behind it can be reached. */
		if (cgroup_rule_decides_all(rule)) {
			emit_return(p, rule->allow);
			return;
		}
		emit_rule(p, rule);
	}
	emit_return(p, 1);
}

static int sys_bpf(int cmd, union bpf_attr *attr)
{
	int r = (int)syscall(SYS_bpf, cmd, attr, sizeof(*attr));

	return r < 0 ? -errno : r;
}

static int load_program(const struct program *p)
{
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE,
		.insns = (uintptr_t)p->insns.data,
		.insn_cnt = (uint32_t)(p->insns.len / sizeof(struct bpf_insn)),
		.license = (uintptr_t) "GPL",
	};

	return sys_bpf(BPF_PROG_LOAD, &attr);
}

/* Programs in force before: `update` puts another one in their place. */
static uint32_t query_programs(int cgroup_fd, uint32_t ids[PROGS_MAX])
{
	union bpf_attr attr = { .query = { .target_fd = (uint32_t)cgroup_fd,
					   .attach_type = BPF_CGROUP_DEVICE,
					   .prog_ids = (uintptr_t)ids,
					   .prog_cnt = PROGS_MAX } };

	return sys_bpf(BPF_PROG_QUERY, &attr) < 0 ? 0 : attr.query.prog_cnt;
}

static void detach_program(int cgroup_fd, uint32_t id)
{
	union bpf_attr get = { .prog_id = id };
	auto_close int fd = sys_bpf(BPF_PROG_GET_FD_BY_ID, &get);
	union bpf_attr attr = { .target_fd = (uint32_t)cgroup_fd,
				.attach_type = BPF_CGROUP_DEVICE };

	if (fd < 0)
		return;
	attr.attach_bpf_fd = (uint32_t)fd;
	(void)sys_bpf(BPF_PROG_DETACH, &attr);
}

/* The new one first: at no moment is there none. */
static int attach_program(int cgroup_fd, int prog_fd)
{
	uint32_t old[PROGS_MAX];
	uint32_t n = query_programs(cgroup_fd, old);
	union bpf_attr attr = { .target_fd = (uint32_t)cgroup_fd,
				.attach_bpf_fd = (uint32_t)prog_fd,
				.attach_type = BPF_CGROUP_DEVICE,
				.attach_flags = BPF_F_ALLOW_MULTI };
	int r = sys_bpf(BPF_PROG_ATTACH, &attr);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n && i < PROGS_MAX; i++)
		detach_program(cgroup_fd, old[i]);
	return 0;
}

int cgroup_v2_devices(const char *dir, const struct spec_resources *r,
		      struct error *err)
{
	auto_close int cgroup_fd =
		open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_close int prog_fd = -1;
	struct program p = { .insns = BUF_INIT };
	int e;

	if (cgroup_fd < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot open '%s'",
				 dir);
	build(&p, r);
	prog_fd = buf_failed(&p.insns) ? -ENOMEM : load_program(&p);
	buf_done(&p.insns);
	e = prog_fd < 0 ? prog_fd : attach_program(cgroup_fd, prog_fd);
	if (e == 0)
		return 0;
	(void)error_set(err, ERR_UNSUPPORTED, -e,
			"cannot limit devices of the cgroup '%s'", dir);
	return error_hint(err, "it takes CAP_BPF, CAP_NET_ADMIN and a kernel "
			       "with CONFIG_CGROUP_BPF");
}
