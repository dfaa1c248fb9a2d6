/* The table of cases: reference/cow.md section 3, by row number. */
#ifndef SANDLOCK_TESTS_BRANCH_ROWS_H
#define SANDLOCK_TESTS_BRANCH_ROWS_H

struct row {
	const char *name;
	const char *lower;  /* shell, before the branch is made */
	const char *inside; /* shell, in the sandbox */
	const char *diff;
	/* What the commit leaves is not what the sandbox saw. */
	bool differs;
	bool root_only;
	/* An overlay in a user namespace shows the two names of one inode with
	 * two inode numbers as long as one is cached. */
	bool user_sees_no_link;
};

/* clang-format off */
static const struct row rows[] = {
	{ "row 1: create a file", NULL,
	  "echo new > f", "A f\n" },
	{ "row 2: create nested directories", "mkdir d",
	  "mkdir -p a/b d/e; echo x > a/b/f; echo y > d/e/g; chmod 700 a/b",
	  "A a/\nA a/b/\nA a/b/f\nA d/e/\nA d/e/g\n" },
	{ "row 3: create an empty directory", "mkdir p",
	  "mkdir p/empty", "A p/empty/\n" },
	{ "row 4: append", "echo one > f; mkdir d; echo two > d/g",
	  "echo more >> f; echo more >> d/g", "M d/g\nM f\n" },
	{ "row 4: change bytes of equal length", "echo one > f",
	  "echo eno > f; touch -d '2001-02-03 04:05:06.123456789' f",
	  "M f\n" },
	{ "row 5: truncate", "echo one > f; echo two > g",
	  ": > f; truncate -s 2 g", "M f\nM g\n" },
	{ "row 6: open for writing and leave alone", "echo one > f; echo x > g",
	  ": <> f; echo y > g", "M g\n" },
	{ "row 7: delete a file", "echo x > f", "rm f", "D f\n" },
	{ "row 8: delete a tree", "mkdir -p d/e; echo x > d/e/f",
	  "rm -r d", "D d/\n" },
	{ "row 10: delete a directory and make it again",
	  "mkdir d; echo x > d/old; echo y > d/same",
	  "rm -r d; mkdir d; echo z > d/new; echo w > d/same",
	  "T d/\nA d/new\nM d/same\n" },
	{ "row 11: replace a directory by an empty one",
	  "mkdir d; echo x > d/old", "rm -r d; mkdir d", "T d/\n" },
	{ "row 12: opaque where the lower has nothing", "mkdir p",
	  "mkdir p/a; echo x > p/a/f; mv p/a p/b", "A p/b/\nA p/b/f\n" },
	{ "row 13: file to directory", "echo x > x",
	  "rm x; mkdir x; echo y > x/y", "T x/\nA x/y\n" },
	{ "row 14: directory to file", "mkdir x; echo y > x/y",
	  "rm -r x; echo f > x", "T x/\n" },
	{ "row 15: symlink to directory", "mkdir real; echo r > real/r; ln -s real x",
	  "rm x; mkdir x; echo y > x/y", "T x/\nA x/y\n" },
	{ "row 16: directory to symlink", "mkdir x; echo y > x/y",
	  "rm -r x; ln -s /etc x", "T x/ -> /etc\n" },
	{ "row 17: a symlink gets another target", "ln -s a x; ln -s a y",
	  "ln -sfn b x; touch -h -d @1000000001.5 y", "M x -> b\n" },
	{ "row 18: write through a symlink", "mkdir real; echo r > real/r; ln -s real/r l",
	  "echo more >> l", "M real/r\n" },
	{ "row 19: rename a file", "echo x > x", "mv x y", "D x\nA y\n" },
	{ "row 20: rename a directory by copy", "mkdir -p d/s; echo x > d/f",
	  "cp -a d e; rm -r d", "D d/\nA e/\nA e/f\nA e/s/\n" },
	{ "row 21: swap a file and a directory", "echo f > x; mkdir y; echo g > y/g",
	  "mv x t; cp -a y x; rm -r y; mv t y",
	  "T x/\nA x/g\nT y/\n" },
	{ "row 22: two new names of one inode", NULL,
	  "echo x > f; ln f g; mkdir n; ln f n/h",
	  "A f\nA g (link to f)\nA n/\nA n/h (link to f)\n" },
	{ "row 23: change one of two names", "echo x > f; ln f g",
	  "echo y >> f", "M f (link broken)\n" },
	{ "row 24: a new name for an old file", "echo x > f; echo y > k",
	  "ln f g; ln k a; mkdir n; ln k n/m",
	  "A a\nA g (link to f)\nm k (link to a)\nA n/\nA n/m (link to a)\n",
	  .user_sees_no_link = true },
	{ "row 25: chmod", "echo x > f; chmod 644 f", "chmod 755 f", "m f\n" },
	{ "row 26: metadata of a directory", "mkdir d; echo x > d/f",
	  "chmod 1770 d; chown 7:8 d; setfattr -n user.k -v 1 d",
	  "m d/ +user.k\n" },
	{ "row 26: an attribute of a directory goes",
	  "mkdir d; setfattr -n user.k -v 1 d; setfattr -n user.l -v 1 d",
	  "setfattr -x user.k d; setfattr -n user.l -v 2 d",
	  "m d/ -user.k ~user.l\n" },
	{ "row 27: touch a directory; times that changes imply", "mkdir d e; echo x > e/f",
	  "touch -d @1000000007.25 d; rm e/f", "D e/f\n" },
	{ "row 28: times of a file", "echo x > f", "touch -d @1000000001.5 f", "" },
	{ "row 29: attributes of a file", "echo x > f; setfattr -n user.j -v 1 f; echo y > g",
	  "setfattr -n user.k -v 2 f; setfattr -x user.j f; setfattr -n trusted.overlay.mine -v 3 g",
	  "m f -user.j +user.k\nm g +trusted.overlay.mine\n",
	  .root_only = true },
	{ "row 29: attributes that look like the overlay's", "echo x > f; mkdir d",
	  "setfattr -n user.overlay.opaque -v y d; echo y > d/g; echo z > h; setfattr -n user.overlay.redirect -v x h",
	  "m d/ +user.overlay.opaque\nA d/g\nA h\n" },
	{ "row 30: set-id bits and file capabilities", "echo x > f; echo y > g",
	  "chmod 4755 f; setfattr -n security.capability -v 0sAQAAAgAgAAAAAAAAAAAAAAAAAAA= g",
	  "m f (setid)\nm g (setid) +security.capability\n" },
	{ "row 31: owner", "echo x > f", "chown 1:2 f", "m f\n" },
	{ "row 32: fifo", "mkfifo old", "mkfifo p; mkdir d; mkfifo d/q; rm old; mkfifo old",
	  "A d/\nA d/q\nA p\n" },
	{ "row 35: mode 000", "echo x > z; chmod 0 z", "echo y > z", "M z\n" },
	{ "row 36: child of a read-only directory", "mkdir r; chmod 555 r",
	  "echo x > r/b", "A r/b\n" },
	{ "row 37: sticky and setgid directories",
	  "mkdir s t; chown :5 s; chmod 2775 s; chmod 1777 t; echo f > t/f",
	  "echo x > s/f; mkdir s/d; echo y > t/f; chmod 3777 t",
	  "A s/d/\nA s/f\nm t/\nM t/f\n" },
	{ "row 38: names of other layer formats", NULL,
	  "echo a > .wh.foo; echo b > .wh..wh..opq", "A .wh..wh..opq\nA .wh.foo\n" },
	{ "row 39: names of any bytes", "mkdir -- '-d'",
	  "printf x > \"$(printf 'n\\nl\\t\\033\\377')\"; echo y > '-d/$(id) \"q\" '",
	  "A -d/$(id) \"q\" \nA n\nl\t\033\377\n" },
	{ "row 43: sparse files", "truncate -s 64M f; truncate -s 64M g",
	  "printf x | dd of=f bs=1 seek=40000000 conv=notrunc 2>/dev/null; : <> g; truncate -s 1G h",
	  "M f\nA h\n" },
	{ "row 72: create and delete", "mkdir d", "mkdir d/x; echo t > f; rm f; rmdir d/x", "",
	  .differs = true }, /* in the times of directories */
	{ "order: a directory sorts as if it ended in a slash",
	  "mkdir a; echo x > a/b",
	  "echo 1 > a-b; echo 2 > a/b; echo 3 > a0; echo 4 > 'a b'",
	  "A a b\nA a-b\nM a/b\nA a0\n" },
	{ "several: ACLs", "mkdir d; echo x > f; echo y > d/g",
	  "setfacl -m u:7:rwx f; setfacl -d -m u:7:rx d; setfacl -m g:9:w d",
	  "m d/ +system.posix_acl_access +system.posix_acl_default\n"
	  "m f +system.posix_acl_access\n" },
};
/* clang-format on */

#endif
