/*
 * Runs every argument as a shell command, one after the other over one branch
 * of the current directory. All of what they write is published, or nothing.
 *
 *	./stages 'make' 'make check' 'rm -r build'
 */
#include <sandlock.h>
#include <stdio.h>

static int add(struct sandlock_transaction *t, const char *script,
	       struct sandlock_error *err)
{
	const char *const argv[] = { "/bin/sh", "-c", script, NULL };
	const struct sandlock_launch launch = { .argv = argv };
	struct sandlock_request *q = sandlock_request_new();
	int r = -1;

	if (q)
		r = sandlock_transaction_add(t, q, &launch, err);
	sandlock_request_free(q);
	return r;
}

static int run(struct sandlock_transaction *t, struct sandlock_error *err)
{
	struct sandlock_transaction_result result;
	const struct sandlock_report *failed;
	int r = sandlock_transaction_run(t, 0, &result, err);

	if (r < 0)
		return r;
	if (result.failed < result.n_run) {
		failed = sandlock_transaction_report(t, result.failed);
		printf("stage %zu failed with %d: nothing is published\n",
		       result.failed + 1, failed->result.exit_value);
		return 1;
	}
	if (result.outcome == SANDLOCK_OUTCOME_PENDING) {
		*err = result.outcome_error;
		return -1;
	}
	printf("%zu stages, published\n", result.n_run);
	return 0;
}

int main(int argc, char **argv)
{
	struct sandlock_transaction *t = NULL;
	struct sandlock_error err = { 0 };
	int r = sandlock_transaction_new(NULL, &t, &err);

	for (int i = 1; r == 0 && i < argc; i++)
		r = add(t, argv[i], &err);
	if (r == 0)
		r = run(t, &err);
	if (r < 0) {
		fprintf(stderr, "stages: %s\n", err.msg);
		r = 125;
	}
	sandlock_transaction_free(t);
	return r;
}
