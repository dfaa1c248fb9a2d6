#include "branch_fixture.h"

#include "unit_user.h"

#include "base/subid.h"
#include "layers_cases.h"

int main(void)
{
	if (geteuid() != 0)
		return unit_needs_root();
	if (become_user(true) != 0 ||
	    subid_default_maps(&fixture_map, &err) < 0)
		return 1;
	return run_cases(false);
}
