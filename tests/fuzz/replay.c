/*
 * Feeds files to a fuzz target, one call each. With libFuzzer's own main
 * instead (make fuzz-json CC=clang) the same target searches for inputs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
	auto_file FILE *file = fopen(path, "rbe");
	auto_free uint8_t *data = NULL;
	long size;

	if (!file || fseek(file, 0, SEEK_END) < 0)
		return -1;
	size = ftell(file);
	if (size < 0)
		return -1;
	rewind(file);
	/* Exactly as large as the input, so that ASan sees an overrun. */
	data = malloc(size ? (size_t)size : 1);
	if (!data || fread(data, 1, (size_t)size, file) != (size_t)size)
		return -1;
	(void)LLVMFuzzerTestOneInput(data, (size_t)size);
	return 0;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (replay(argv[i]) < 0) {
			perror(argv[i]);
			return 1;
		}
	}
	printf("%d inputs\n", argc - 1);
	return 0;
}
