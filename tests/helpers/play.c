/*
 * play: a random program of file operations, the same one for the same seed
 * wherever it runs, so that what it meets and what it leaves can be compared
 * (branch_fuzz.py).
 *
 *	play [-tlfcn] [-o HINTS | -i HINTS] [-x N]... SEED COUNT DIR
 *[COMMAND...]
 *
 * Each operation draws from a generator of its own (seed and number), so that
 * leaving one out (-x) changes no other. One line each: what was done and
 * what came back. COMMAND is executed in DIR at the end.
 *
 * -t makes a tree to begin with: operations that create, then all times are
 * old. -o is the run that is right by definition. What a branch is known to do
 * otherwise, this run does, too, and writes down what the other one (-i)
 * cannot know of itself:
 *
 *	a directory that was there before and is renamed leaves descriptors of
 *	it behind (sandlock-branch(7)): both close theirs
 *	RENAME_WHITEOUT is EINVAL on an overlay (cow.md 2.8): in both
 *	an ACL that is not there is removed by ext4, and ENODATA on an overlay
 *	-f: the branch is stored on another file system, which tells what
 *	fallocate can do and makes copy_file_range copy between two
 *	-c: in tier C an O_PATH descriptor is one to read from, a descriptor to
 *	read from does not see what is copied up later, and of two errors in a
 *	call the other one may be told
 *
 * -l: the tree has hard links. -n: no sockets and devices. -u: nothing that
 * takes root, and nothing that keeps its owner out.
 */
#include "play_ops.h"

struct op {
	void (*run)(void);
	unsigned int weight, weight_in_tree;
};

/* clang-format off */
static const struct op ops[] = {
	{ op_create,      10, 20 }, { op_write,       8, 2 },
	{ op_truncate,     4,  0 }, { op_mmap,        3, 0 },
	{ op_unlink,       6,  0 }, { op_rmdir,       2, 0 },
	{ op_mkdir,        7, 24 }, { op_rename,     16, 0 },
	{ op_link,         5,  0 }, { op_symlink,     4, 8 },
	{ op_mknod,        3,  4 }, { op_chmod,       6, 4 },
	{ op_chown,        4,  3 }, { op_utimes,      4, 0 },
	{ op_setxattr,     5,  5 }, { op_removexattr, 3, 0 },
	{ op_acl,          2,  2 }, { op_fallocate,   3, 0 },
	{ op_tmpfile,      3,  0 }, { op_copy,        3, 0 },
	{ op_replace,      6,  0 }, { op_many,        1, 1 },
	{ op_sparse,       1,  1 }, { op_stat,        6, 0 },
	{ op_read,         5,  0 }, { op_list,        5, 0 },
	{ op_look,         4,  0 }, { op_open,        8, 0 },
	{ op_fd_data,      8,  0 }, { op_fd_meta,     5, 0 },
	{ op_at,          10,  0 },
};
/* clang-format on */

static unsigned int weight_of(const struct op *op)
{
	if (op->run == op_link && with_links)
		return 10;
	return making_tree ? op->weight_in_tree : op->weight;
}

static void run_op(long number)
{
	unsigned int total = 0, at;

	begin_op(number);
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
		total += weight_of(&ops[i]);
	at = below(total);
	for (size_t i = 0;; i++) {
		unsigned int w = weight_of(&ops[i]);

		if (at < w) {
			ops[i].run();
			return;
		}
		at -= w;
	}
}

static int make_old(const char *path, const struct stat *st, int type,
		    struct FTW *ftw)
{
	struct timespec t[2];

	(void)st;
	(void)type;
	(void)ftw;
	state = hash_bytes(seed, path, strlen(path));
	t[0] = t[1] = random_time();
	(void)utimensat(AT_FDCWD, path, t, AT_SYMLINK_NOFOLLOW);
	return 0;
}

static bool is_skipped(long number)
{
	for (size_t i = 0; i < n_skipped; i++)
		if (skipped[i] == number)
			return true;
	return false;
}

static FILE *open_hints(const char *path, const char *how)
{
	FILE *f = fopen(path, how);

	if (!f)
		err(2, "%s", path);
	return f;
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "+tlfcnuo:i:x:")) != -1) {
		if (c == 't')
			making_tree = true;
		else if (c == 'f')
			is_foreign = true;
		else if (c == 'c')
			is_tier_c = true;
		else if (c == 'n')
			without_special = true;
		else if (c == 'u')
			is_user = without_special = true;
		else if (c == 'l')
			with_links = true;
		else if (c == 'o')
			hints_out = open_hints(optarg, "we");
		else if (c == 'i')
			hints_in = open_hints(optarg, "re");
		else if (c == 'x' && n_skipped < MAX_SKIPPED)
			skipped[n_skipped++] = strtol(optarg, NULL, 10);
		else
			return 2;
	}
	if (argc - optind < 3)
		errx(2, "usage: play [-t|-o HINTS|-i HINTS] [-x N]... SEED "
			"COUNT DIR [COMMAND...]");
	seed = strtoull(argv[optind], NULL, 10);
	if (chdir(argv[optind + 2]) < 0)
		err(2, "%s", argv[optind + 2]);
	began = time(NULL) - 5;
	for (int i = 0; i < N_SLOTS; i++)
		slots[i] = -1;
	if (hints_out)
		(void)nftw(".", note_dir, 16, FTW_PHYS);
	for (long i = 0; i < strtol(argv[optind + 1], NULL, 10); i++)
		if (!is_skipped(i))
			run_op(i);
	if (making_tree)
		(void)nftw(".", make_old, 16, FTW_PHYS | FTW_DEPTH);
	if (fflush(stdout) || (hints_out && fclose(hints_out)))
		err(2, "cannot write");
	if (!argv[optind + 3])
		return 0;
	putchar('\1');
	(void)fflush(stdout);
	execv(argv[optind + 3], argv + optind + 3);
	err(2, "%s", argv[optind + 3]);
}
