/* vmcompute.dll: HNSCall, the first version of the interface to HNS. */
#include "hcn.h"
#include <stdlib.h>
#include <wchar.h>

/* The body of the call to the emulator is METHOD \n PATH \n OBJECT. */
__declspec(dllexport) HRESULT WINAPI HNSCall(const WCHAR *method, const WCHAR *path, const WCHAR *object, WCHAR **response) {
    size_t size = wcslen(method) + wcslen(path) + (object ? wcslen(object) : 0) + 3;
    WCHAR *body = malloc(size * sizeof(WCHAR));
    if (!body)
        return E_OUTOFMEMORY;
    wcscpy(body, method);
    wcscat(body, L"\n");
    wcscat(body, path);
    wcscat(body, L"\n");
    if (object)
        wcscat(body, object);
    HRESULT status = hcn_call("HNSCall", NULL, 0, body, NULL, response, NULL);
    free(body);
    return status;
}

BOOL WINAPI DllMain(HINSTANCE instance, DWORD reason, LPVOID reserved) { return TRUE; }
