/* What computenetwork.dll and vmcompute.dll have in common: calls whose texts are UTF-16 and whose
 * results the caller frees with CoTaskMemFree. */
#ifndef HNS_HCN_H
#define HNS_HCN_H
#include "rpc.h"

HRESULT hcn_call(const char *function, const GUID *id, UINT64 handle, const WCHAR *body, UINT64 *returned, WCHAR **out,
                 WCHAR **error);

#endif
