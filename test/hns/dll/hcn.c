#include "hcn.h"
#include <objbase.h>
#include <stdlib.h>
#include <string.h>

static WCHAR *task_memory(const char *text) {
    if (!text)
        return NULL;
    int size = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    WCHAR *wide = CoTaskMemAlloc((size_t)size * sizeof(WCHAR));
    if (wide)
        MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, size);
    return wide;
}

HRESULT hcn_call(const char *function, const GUID *id, UINT64 handle, const WCHAR *body, UINT64 *returned, WCHAR **out,
                 WCHAR **error) {
    if (out)
        *out = NULL;
    if (error)
        *error = NULL;
    char *text = rpc_utf8(body);
    if (!text)
        return E_OUTOFMEMORY;
    struct rpc_reply reply;
    DWORD failed = rpc_call(function, id, handle, text, &reply);
    free(text);
    if (failed)
        return HRESULT_FROM_WIN32(failed);
    if (returned)
        *returned = reply.handle;
    if (out)
        *out = task_memory(reply.out);
    if (error)
        *error = task_memory(reply.error);
    HRESULT status = (HRESULT)reply.status;
    rpc_free(&reply);
    return status;
}
