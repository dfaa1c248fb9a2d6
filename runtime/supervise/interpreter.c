#include "supervise/interpreter.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"

enum {
	LINE_BYTES = 256, /* BINPRM_BUF_SIZE */
	HEADERS_BYTES = 65536,
};

static int take_line(char *line, char ret[PATH_MAX])
{
	char *path = line + 2 + strspn(line + 2, " \t");

	path[strcspn(path, " \t\n")] = '\0';
	path_copy(ret, path);
	return *path != '\0';
}

static int take_elf(int fd, const Elf64_Ehdr *h, char ret[PATH_MAX])
{
	Elf64_Phdr p;
	ssize_t n;

	if (h->e_phentsize != sizeof(p) ||
	    h->e_phnum > HEADERS_BYTES / sizeof(p))
		return 0;
	for (unsigned int i = 0; i < h->e_phnum; i++) {
		n = pread(fd, &p, sizeof(p),
			  (off_t)(h->e_phoff + i * sizeof(p)));
		if (n != (ssize_t)sizeof(p))
			return n < 0 ? -errno : 0;
		if (p.p_type != PT_INTERP)
			continue;
		if (p.p_filesz < 2 || p.p_filesz > PATH_MAX)
			return 0;
		n = pread(fd, ret, p.p_filesz, (off_t)p.p_offset);
		if (n != (ssize_t)p.p_filesz || ret[n - 1])
			return n < 0 ? -errno : 0;
		return 1;
	}
	return 0;
}

int interpreter_read(int fd, char ret[PATH_MAX])
{
	union {
		char line[LINE_BYTES + 1];
		Elf64_Ehdr elf;
	} u;
	ssize_t n = pread(fd, &u, LINE_BYTES, 0);

	if (n < 0)
		return -errno;
	u.line[n] = '\0';
	if (n > 2 && memcmp(u.line, "#!", 2) == 0)
		return take_line(u.line, ret);
	if (n >= (ssize_t)sizeof(u.elf) && memcmp(u.line, ELFMAG, SELFMAG) == 0)
		return take_elf(fd, &u.elf, ret);
	return 0;
}
