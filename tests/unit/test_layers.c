#include "branch_fixture.h"

static struct error err;

#include "layers_cases.h"

int main(void)
{
	return geteuid() == 0 ? run_cases(true) : unit_needs_root();
}
