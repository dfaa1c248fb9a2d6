/* The operations of play.c. Included once. */
#ifndef PLAY_OPS_H
#define PLAY_OPS_H

#include "play.h"

/* Operations on paths. */

/* A branch is mounted nodev, and what goes through a FIFO of it stamps none. */
static int open_file(const char *path, int flags, mode_t mode)
{
	struct stat st;

	if (stat(path, &st) == 0 && !(flags & O_PATH) && !S_ISREG(st.st_mode) &&
	    !S_ISDIR(st.st_mode)) {
		errno = EACCES;
		return -1;
	}
	return open(path, flags | O_CLOEXEC | O_NONBLOCK, mode);
}

static char data[1 << 17];

static void op_create(void)
{
	static const int extra[] = { 0, O_EXCL, O_TRUNC, O_APPEND, O_NOFOLLOW };
	int flags = O_CREAT | O_CLOEXEC | (once_in(3) ? O_RDWR : O_WRONLY) |
		    extra[below(5)];
	const char *path = pick(once_in(3) ? ANY : MISSING);
	mode_t mode = random_mode(false);
	size_t n = random_data(data, sizeof(data));
	int fd = open_file(path, flags, mode);

	say("create");
	say_path(path);
	printf(" %x %o", flags, mode);
	if (done(fd < 0 ? fd : 0) < 0)
		return;
	if (!once_in(5)) {
		say("write");
		done(write(fd, data, n));
	}
	if (once_in(4))
		keep(fd);
	else
		close(fd);
}

static void op_write(void)
{
	const char *path = pick(REGULAR);
	int flags = O_CLOEXEC | O_NONBLOCK | (once_in(3) ? O_RDWR : O_WRONLY) |
		    (once_in(4) ? O_APPEND : 0) | (once_in(8) ? O_TRUNC : 0);
	off_t at = random_offset();
	size_t n = random_data(data, sizeof(data));
	int fd = open_file(path, flags, 0);

	say("write");
	say_path(path);
	printf(" %x %lld", flags, (long long)at);
	/* At times opened for nothing. */
	if (done(fd < 0 ? fd : 0) >= 0 && !once_in(5))
		n = (size_t)done(pwrite(fd, data, n, at));
	if (fd >= 0)
		close(fd);
}

/* ext4 stamps a file that is cut to the size that it has, tmpfs does not. */
static off_t other_size(const char *path, int fd, off_t to)
{
	struct stat st;
	int r = path ? stat(path, &st) : fstat(fd, &st);

	return is_foreign && r == 0 && st.st_size == to ? to + 1 : to;
}

static void op_truncate(void)
{
	const char *path = pick(REGULAR);
	off_t to = once_in(4) ? 0 : random_offset();

	say("truncate");
	say_path(path);
	printf(" %lld", (long long)to);
	done(truncate(path, other_size(path, -1, to)));
}

static void op_mmap(void)
{
	const char *path = pick(REGULAR);
	int fd = open_file(path, O_RDWR, 0);
	struct stat st;
	char *p;

	say("mmap");
	say_path(path);
	if (done(fd < 0 ? fd : 0) < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
	    st.st_size < 1 << 20) {
		p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE,
			 MAP_SHARED, fd, 0);
		if (p != MAP_FAILED) {
			p[below((unsigned int)st.st_size)] ^= 0x55;
			msync(p, (size_t)st.st_size, MS_SYNC);
			munmap(p, (size_t)st.st_size);
		}
	}
	close(fd);
}

static void op_unlink(void)
{
	const char *path = pick(THERE);

	say("unlink");
	say_path(path);
	done(unlink(path));
}

static void op_rmdir(void)
{
	const char *path = pick(DIRECTORY);

	say("rmdir");
	say_path(path);
	done(rmdir(path));
}

static void op_mkdir(void)
{
	const char *path = pick(MISSING);
	mode_t mode = random_mode(true);

	say("mkdir");
	say_path(path);
	printf(" %o", mode);
	done(mkdir(path, mode));
}

static void op_rename(void)
{
	enum want kind = once_in(2) ? DIRECTORY : THERE;
	unsigned int flags = random_rename_flags();
	const char *from = pick(kind);
	const char *to = pick_other(once_in(2) ? MISSING : ANY);

	if (flags & RENAME_EXCHANGE && !once_in(4))
		to = pick_other(THERE);
	say("rename");
	say_path(from);
	say_path(to);
	printf(" %x", flags);
	done(rename_at(AT_FDCWD, from, AT_FDCWD, to, flags));
}

static void op_link(void)
{
	const char *from = pick(REGULAR), *to = pick_other(MISSING);
	int flags = once_in(3) ? AT_SYMLINK_FOLLOW : 0;

	if (once_in(4))
		from = pick(THERE);
	say("link");
	say_path(from);
	say_path(to);
	printf(" %x", flags);
	done(linkat(AT_FDCWD, from, AT_FDCWD, to, flags));
}

static void op_symlink(void)
{
	static char target[PATH_MAX];
	const char *path = pick(MISSING);

	random_path(target);
	say("symlink");
	say_path(target);
	say_path(path);
	done(symlink(target, path));
}

static void op_mknod(void)
{
	static const mode_t types[] = { S_IFIFO, S_IFSOCK, S_IFREG, S_IFCHR,
					S_IFBLK };
	mode_t type = types[without_special ? 2 * below(2)
					    : below(once_in(2) ? 5 : 3)];
	const char *path = pick(MISSING);
	dev_t dev = type == S_IFCHR || type == S_IFBLK
			    ? makedev(1, 3 + below(5))
			    : 0;
	mode_t mode = random_mode(false);

	say("mknod");
	say_path(path);
	printf(" %o", type | mode);
	done(mknod(path, type | mode, dev));
}

static void op_chmod(void)
{
	const char *path = pick(THERE);
	struct stat st;
	bool is_dir = lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
	mode_t mode = random_mode(is_dir);

	say("chmod");
	say_path(path);
	printf(" %o", mode);
	done(chmod(path, mode));
}

static void op_chown(void)
{
	const char *path = pick(THERE);
	uid_t uid = once_in(3) || is_user ? (uid_t)-1 : below(3) * 1000;
	gid_t gid = once_in(3) || is_user ? (gid_t)-1 : below(3) * 1000;
	int flags = once_in(3) ? 0 : AT_SYMLINK_NOFOLLOW;

	say("chown");
	say_path(path);
	printf(" %d %d %x", (int)uid, (int)gid, flags);
	done(fchownat(AT_FDCWD, path, uid, gid, flags));
}

static struct timespec random_time(void)
{
	return (struct timespec){ 1000000000 + below(100000000),
				  once_in(3) ? 0 : below(1000000000) };
}

static void op_utimes(void)
{
	struct timespec t[2] = { { 0, UTIME_OMIT }, random_time() };
	int flags = once_in(2) ? AT_SYMLINK_NOFOLLOW : 0;
	const char *path = pick(THERE);

	if (once_in(5))
		t[1].tv_nsec = UTIME_NOW;
	if (once_in(3))
		t[0] = random_time();
	say("utimes");
	say_path(path);
	printf(" %x %ld.%ld", flags, (long)t[1].tv_sec, t[1].tv_nsec);
	done(utimensat(AT_FDCWD, path, t, flags));
}

static void op_setxattr(void)
{
	const char *path = pick(THERE), *name = random_xattr();
	int flags = once_in(3) ? 1 + (int)below(2) : 0;
	size_t n = below(once_in(8) ? 2000 : 30);

	memset(data, 'a' + (int)below(26), n);
	if (strcmp(name, "security.capability") == 0)
		memcpy(data, "\0\0\0\2\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
		       n = 20);
	say("setxattr");
	say_path(path);
	printf(" %s %zu %d", name, n, flags);
	done(lsetxattr(path, name, data, n, flags));
}

static void op_removexattr(void)
{
	const char *path = pick(THERE), *name = random_xattr();
	int r;

	if (once_in(4))
		name = once_in(2) ? "system.posix_acl_access"
				  : "system.posix_acl_default";
	say("removexattr");
	say_path(path);
	printf(" %s", name);
	r = lremovexattr(path, name);
	if (r < 0 && errno == ENODATA && name[0] == 's')
		r = 0;
	done(r);
}

static void op_acl(void)
{
	bool of_new = once_in(2);
	const char *path = pick(of_new ? DIRECTORY : THERE);
	size_t n = random_acl(data);

	say("acl");
	say_path(path);
	printf(" %d", of_new);
	done(setxattr(path,
		      of_new ? "system.posix_acl_default"
			     : "system.posix_acl_access",
		      data, n, 0));
}

static int fallocate_some(int fd)
{
	static const int modes[] = { 0, FALLOC_FL_KEEP_SIZE,
				     FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				     FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				     FALLOC_FL_ZERO_RANGE };
	int mode = modes[below(is_foreign ? 4 : 5)];
	off_t at = random_offset();

	return fallocate(fd, mode, at, 1 + below(20000));
}

static void op_fallocate(void)
{
	const char *path = pick(REGULAR);
	int fd = open_file(path, O_RDWR, 0);

	say("fallocate");
	say_path(path);
	if (done(fd < 0 ? fd : 0) < 0)
		return;
	say("fallocate");
	done(fallocate_some(fd));
	close(fd);
}

static void op_tmpfile(void)
{
	const char *dir = pick(DIRECTORY), *to = pick_other(MISSING);
	int flags = O_TMPFILE | O_RDWR | O_CLOEXEC;
	int fd = open(dir, flags, random_mode(false));
	char link[64];

	say("tmpfile");
	say_path(dir);
	say_path(to);
	if (done(fd < 0 ? fd : 0) < 0)
		return;
	done(write(fd, data, random_data(data, sizeof(data))));
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	say("linkat");
	done(linkat(AT_FDCWD, link, AT_FDCWD, to, AT_SYMLINK_FOLLOW));
	if (once_in(3))
		keep(fd);
	else
		close(fd);
}

static void op_copy(void)
{
	const char *from = pick(REGULAR), *to = pick_other(REGULAR);
	int in = open_file(from, O_RDONLY, 0);
	int out = open_file(to, O_WRONLY, 0);
	off_t in_at = random_offset(), out_at = random_offset();

	say("copy");
	say_path(from);
	say_path(to);
	/* In tier C the one may be the lower, the other its copy. */
	if (in >= 0 && out >= 0 && !is_foreign &&
	    !(is_tier_c && strcmp(from, to) == 0))
		done(copy_file_range(in, &in_at, out, &out_at, 30000, 0));
	else
		printf(" not opened\n");
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	return (type == FTW_DP || type == FTW_D ? rmdir(path) : unlink(path));
}

static void remove_tree(const char *path)
{
	say("remove");
	say_path(path);
	done(nftw(path, remove_one, 16, FTW_PHYS | FTW_DEPTH));
}

/* Another object takes the place of a directory, or of whatever is there. */
static void op_replace(void)
{
	const char *path = pick(THERE);
	int fd;

	remove_tree(path);
	say("instead");
	switch (below(5)) {
	case 0:
		done(-1);
		break;
	case 1:
		fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
		if (done(fd < 0 ? fd : 0) >= 0) {
			(void)!write(fd, data, random_data(data, 1000));
			close(fd);
		}
		break;
	case 2:
		done(symlink(random_name(), path));
		break;
	default:
		done(mkdir(path, random_mode(true)));
	}
}

static void op_many(void)
{
	const char *dir = pick(DIRECTORY);
	int n = 50 + (int)below(200), fd = open(dir, O_PATH | O_CLOEXEC);

	say("many");
	say_path(dir);
	printf(" %d", n);
	done(fd < 0 ? fd : 0);
	for (int i = 0; fd >= 0 && i < n; i++) {
		char name[32];

		snprintf(name, sizeof(name), "many%d", i);
		if (making_tree || once_in(3))
			(void)mknodat(fd, name, S_IFREG | 0644, 0);
		else
			(void)unlinkat(fd, name, 0);
	}
	if (fd >= 0)
		close(fd);
}

static void op_sparse(void)
{
	const char *path = pick(once_in(2) ? REGULAR : MISSING);
	int fd = open_file(path, O_RDWR | O_CREAT, 0644);

	say("sparse");
	say_path(path);
	if (done(fd < 0 ? fd : 0) < 0)
		return;
	done(ftruncate(fd, other_size(NULL, fd, 6 << 20)));
	done(pwrite(fd, "x", 1, (off_t)below(5 << 20)));
	close(fd);
}

/* Operations that look. */

static void print_stat(const struct stat *st)
{
	printf(" %o %u %u", st->st_mode, st->st_uid, st->st_gid);
	if (!S_ISDIR(st->st_mode))
		printf(" %lld", (long long)st->st_size);
	if (st->st_mtim.tv_sec >= began)
		printf(" now");
	else
		printf(" %lld.%09ld", (long long)st->st_mtim.tv_sec,
		       st->st_mtim.tv_nsec);
}

static void op_stat(void)
{
	const char *path = pick(once_in(3) ? ANY : THERE);
	int flags = once_in(3) ? 0 : AT_SYMLINK_NOFOLLOW;
	struct stat st;
	int r = fstatat(AT_FDCWD, path, &st, flags);

	say("stat");
	say_path(path);
	if (r == 0)
		print_stat(&st);
	done(r);
}

static void op_read(void)
{
	const char *path = pick(REGULAR);
	int fd = open_file(path, O_RDONLY, 0);

	say("read");
	say_path(path);
	if (fd < 0) {
		done(fd < 0 ? fd : 0);
		return;
	}
	say_hash_of(fd);
	if (once_in(2))
		keep(fd);
	else
		close(fd);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	uint64_t h = 0xcbf29ce484222325;
	static char *names[4096];
	struct dirent *d;
	size_t n = 0;

	if (!dir) {
		done(-1);
		return;
	}
	while ((d = readdir(dir)) && n < 4096)
		if (asprintf(&names[n], "%c%s", 'a' + d->d_type, d->d_name) > 0)
			n++;
	closedir(dir);
	qsort(names, n, sizeof(*names), compare_names);
	for (size_t i = 0; i < n; i++) {
		h = hash_bytes(h, names[i], strlen(names[i]) + 1);
		free(names[i]);
	}
	printf(" %016llx", (unsigned long long)h);
	done((long)n);
}

static void op_list(void)
{
	const char *path = pick(DIRECTORY);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	say("list");
	say_path(path);
	if (fd < 0)
		done(fd < 0 ? fd : 0);
	else
		list(fd);
	if (fd >= 0)
		close(fd);
}

static void op_look(void)
{
	const char *path = pick(THERE), *name = random_xattr();
	ssize_t n;

	switch (below(3)) {
	case 0:
		say("getxattr");
		say_path(path);
		printf(" %s", name);
		done(lgetxattr(path, name, data, sizeof(data)));
		break;
	case 1:
		say("readlink");
		say_path(path);
		n = readlink(path, data, sizeof(data) - 1);
		data[n < 0 ? 0 : n] = '\0';
		say_path(data);
		done(n);
		break;
	default:
		say("access");
		say_path(path);
		done(access(path, (int)below(8)));
	}
}

/* Operations on what is open. */

static void op_open(void)
{
	static const int flags[] = { O_RDONLY,
				     O_RDWR,
				     O_WRONLY,
				     O_PATH,
				     O_RDONLY | O_DIRECTORY,
				     O_RDONLY | O_DIRECTORY,
				     O_PATH | O_NOFOLLOW };
	int f = flags[below(7)];
	const char *path = pick(f & O_DIRECTORY ? DIRECTORY : REGULAR);
	int fd = open_file(path, f & (is_tier_c ? ~O_PATH : ~0), 0);

	say("open");
	say_path(path);
	printf(" %x", f);
	done(fd < 0 ? fd : 0);
	keep(fd);
}

static bool is_dir(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

static void op_fd_data(void)
{
	int i, fd = slot_of(&i);
	struct stat st;

	say("slot %d", i);
	switch (below(7)) {
	case 0:
		printf(" write");
		done(write(fd, data, random_data(data, sizeof(data))));
		break;
	case 1:
		printf(" pwrite");
		done(pwrite(fd, data, random_data(data, 2000),
			    random_offset()));
		break;
	case 2:
		printf(" ftruncate");
		done(ftruncate(fd, other_size(NULL, fd, random_offset())));
		break;
	case 3:
		printf(" fallocate");
		done(fallocate_some(fd));
		break;
	case 4:
		printf(" fsync");
		done(fsync(fd));
		break;
	case 5:
		printf(" read");
		say_hash_of(fd);
		break;
	default:
		printf(" fstat");
		/* In tier C a directory is the lower's. */
		if (fstat(fd, &st) == 0 && !(is_tier_c && is_dir(fd)))
			print_stat(&st);
		putchar('\n');
	}
}

static void op_fd_meta(void)
{
	struct timespec t[2] = { random_time(), random_time() };
	int i, fd = slot_of(&i);
	struct stat st;

	say("slot %d", i);
	if (is_out_of_reach(fd, i)) {
		printf(" is out of reach\n");
		return;
	}
	switch (below(6)) {
	case 0:
		printf(" fchmod");
		done(fchmod(fd, random_mode(fstat(fd, &st) == 0 &&
					    S_ISDIR(st.st_mode))));
		break;
	case 1:
		printf(" fchown");
		done(is_user ? fchown(fd, (uid_t)-1, (gid_t)-1)
			     : fchown(fd, below(2) * 1000, below(2) * 1000));
		break;
	case 2:
		printf(" futimens");
		done(futimens(fd, t));
		break;
	case 3:
		printf(" fsetxattr");
		done(fsetxattr(fd, random_xattr(), "value", 5, 0));
		break;
	case 4:
		printf(" fremovexattr");
		done(fremovexattr(fd, random_xattr()));
		break;
	default:
		printf(" close");
		if (fd >= 0)
			close(fd);
		slots[i] = -1;
		putchar('\n');
	}
}

static void op_at(void)
{
	int i, j, fd = slot_of(&i), other = slot_of(&j), made;
	const char *name = random_name(), *to = random_name();

	say("slots %d %d", i, j);
	if (is_tier_c && (!is_dir(fd) || !is_dir(other))) {
		printf(" are not used\n");
		return;
	}
	say_path(name);
	say_path(to);
	switch (below(8)) {
	case 0:
		printf(" openat");
		made = openat(fd, name,
			      O_CREAT | O_RDWR | O_CLOEXEC | O_NONBLOCK, 0644);
		if (done(made < 0 ? made : 0) < 0)
			break;
		(void)!write(made, data, random_data(data, 2000));
		keep(made);
		break;
	case 1:
		printf(" mkdirat");
		done(mkdirat(fd, name, random_mode(true)));
		break;
	case 2:
		printf(" unlinkat");
		done(unlinkat(fd, name, once_in(2) ? AT_REMOVEDIR : 0));
		break;
	case 3:
		printf(" renameat");
		done(rename_at(fd, name, other, to, random_rename_flags()));
		break;
	case 4:
		printf(" linkat");
		done(linkat(fd, name, other, to, 0));
		break;
	case 5:
		printf(" linkat empty");
		done(linkat(fd, "", other, to, AT_EMPTY_PATH));
		break;
	case 6:
		printf(" symlinkat");
		done(symlinkat(to, fd, name));
		break;
	default:
		printf(" list");
		list(fd);
	}
}

#endif
