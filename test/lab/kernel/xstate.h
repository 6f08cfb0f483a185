/*
 * The floating-point state of a process, read and written on a processor that has more of it than Linux 6.1 and 6.12 have room for as user-mode
 * Linux: 2,696 bytes, up to the registers of AVX-512. A processor with AMX has 11,008, and takes no less at once; without this, no process of that
 * kernel begins there. kernel.sh includes it in arch/x86/um/os-Linux/registers.c. Programs get no AMX from user-mode Linux, so nothing is lost.
 */
#include <string.h>

/*
 * There is one processor, and none of these functions is called within another. Both are called at each system call and
 * page fault of a program: nothing is cleared there. What is beyond kept_xstate's first 2,696 bytes stays zero.
 */
static char whole_xstate[65536], kept_xstate[65536];

#define XSTATE_PRESENT 512 /* the offset of the bits that say of each part whether it is there */
#define XSTATE_KEPT 0x3ffUL /* the parts in the first 2,696 bytes */

static long get_xstate(int pid, struct iovec *kept)
{
	struct iovec whole = { whole_xstate, sizeof(whole_xstate) };
	long err = ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &whole);

	if (err < 0)
		return err;
	if (whole.iov_len < kept->iov_len)
		kept->iov_len = whole.iov_len;
	memcpy(kept->iov_base, whole_xstate, kept->iov_len);
	return 0;
}

static long set_xstate(int pid, struct iovec *kept)
{
	struct iovec whole = { kept_xstate, sizeof(kept_xstate) };

	memcpy(kept_xstate, kept->iov_base, kept->iov_len);
	*(unsigned long *)(kept_xstate + XSTATE_PRESENT) &= XSTATE_KEPT;
	return ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &whole);
}
