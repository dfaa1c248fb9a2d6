/* What a payload executes: a script's first line, the headers of a program. */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervise/interpreter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_close int fd = memfd_create("program", MFD_CLOEXEC);
	char path[PATH_MAX];
	int kind;

	if (fd < 0 || fd_write_full(fd, data, size) < 0)
		abort();
	memset(path, 'x', sizeof(path));
	kind = interpreter_read(fd, path);
	if (kind > 0 && !memchr(path, '\0', sizeof(path)))
		abort();
	if (kind == INTERPRETER_OF_SCRIPT && (!*path || strpbrk(path, " \t\n")))
		abort();
	return 0;
}
