#include "unit.h"

#include <elf.h>
#include <limits.h>
#include <sys/mman.h>

#include "supervise/interpreter.h"

static int read_of(const char *text, size_t n, char ret[PATH_MAX])
{
	int fd = memfd_create("program", MFD_CLOEXEC), r;

	assert_int_equal(write(fd, text, n), n);
	r = interpreter_read(fd, ret);
	(void)close(fd);
	return r;
}

static void is_script(const char *text, const char *path)
{
	char ret[PATH_MAX];

	assert_int_equal(read_of(text, strlen(text), ret),
			 path ? INTERPRETER_OF_SCRIPT : INTERPRETER_NONE);
	if (path)
		assert_string_equal(ret, path);
}

static void test_scripts(void **state)
{
	is_script("#!/bin/sh\nexit 3\n", "/bin/sh");
	is_script("#! \t/bin/sh -e\n", "/bin/sh");
	is_script("#!sh", "sh");
	is_script("#!\n", NULL);
	is_script("# !/bin/sh\n", NULL);
	is_script("", NULL);
}

static void test_programs(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char ret[PATH_MAX] = "", head[200];

	/* Ours is linked as every program. */
	assert_int_equal(interpreter_read(fd, ret), INTERPRETER_OF_ELF);
	assert_int_equal(*ret, '/');
	assert_int_equal(access(ret, X_OK), 0);
	/* Its headers alone, and less. */
	assert_int_equal(read(fd, head, sizeof(head)), sizeof(head));
	(void)close(fd);
	assert_int_equal(read_of(head, sizeof(head), ret), 0);
	assert_int_equal(read_of(head, 20, ret), 0);
}

/* A program of one segment, which names its loader. */
static void test_programs_of_32_bits(void **state)
{
	struct {
		Elf32_Ehdr e;
		char more[12]; /* that one of 64 bits would have */
		Elf32_Phdr p;
		char loader[8];
	} f = {
		.e = { .e_ident = ELFMAG,
		       .e_machine = EM_386,
		       .e_phoff = sizeof(f.e) + sizeof(f.more),
		       .e_phentsize = sizeof(f.p),
		       .e_phnum = 1 },
		.p = { .p_type = PT_INTERP,
		       .p_offset = sizeof(f) - sizeof(f.loader),
		       .p_filesz = sizeof(f.loader) },
		.loader = "/ld.so1",
	};
	char ret[PATH_MAX] = "";

	f.e.e_ident[EI_CLASS] = ELFCLASS64; /* which the kernel ignores */
	assert_int_equal(read_of((char *)&f, sizeof(f), ret),
			 INTERPRETER_OF_ELF);
	assert_string_equal(ret, "/ld.so1");
	/* Read as one of 64 bits it has a table, too. */
	f.more[2] = sizeof(Elf64_Phdr);
	f.more[4] = 1;
	assert_int_equal(read_of((char *)&f, sizeof(f), ret), -EINVAL);
	f.more[4] = 0;
	f.e.e_phentsize = 1;
	assert_int_equal(read_of((char *)&f, sizeof(f), ret), 0);
}

/* What is missing of its header is 0. */
static void test_programs_shorter_than_a_header(void **state)
{
	union {
		Elf32_Ehdr e;
		char bytes[46];
	} f = { .e = { .e_ident = ELFMAG,
		       .e_phoff = 4,
		       .e_phentsize = sizeof(Elf32_Phdr),
		       .e_phnum = 1 } };
	const Elf32_Phdr p = { .p_type = PT_INTERP,
			       .p_offset = 36,
			       .p_filesz = 3 };
	char ret[PATH_MAX] = "";

	memcpy(f.bytes + 4, &p, 24);
	f.e.e_phoff = 4;
	memcpy(f.bytes + 36, "/t", 3);
	assert_int_equal(read_of(f.bytes, sizeof(f.bytes), ret),
			 INTERPRETER_OF_ELF);
	assert_string_equal(ret, "/t");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_programs_of_32_bits),
		cmocka_unit_test(test_programs_shorter_than_a_header),
	};

	return RUN_TESTS(tests);
}
