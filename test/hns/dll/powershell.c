/* powershell.exe, which hands its command to the emulator (test/hns/powershell.go) and ends with that one's status. Wine's own does
 * nothing and succeeds. The command is the last argument. */
#include "rpc.h"
#include <stdio.h>
#include <stdlib.h>

int wmain(int count, wchar_t **words) {
    if (count < 2) {
        fputs("powershell: -Command COMMAND is wanted\n", stderr);
        return 1;
    }
    char *command = rpc_utf8(words[count - 1]);
    if (!command)
        return 1;
    struct rpc_reply reply;
    DWORD failed = rpc_call("PowerShell", NULL, 0, command, &reply);
    free(command);
    if (failed) {
        fprintf(stderr, "powershell: the emulator does not answer: error %lu\n", (unsigned long)failed);
        return 1;
    }
    if (reply.out && *reply.out)
        printf("%s\n", reply.out);
    if (reply.error && *reply.error)
        fprintf(stderr, "%s\n", reply.error);
    int status = (int)reply.status;
    rpc_free(&reply);
    return status;
}
