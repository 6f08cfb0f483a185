/* computenetwork.dll: the HCN functions that hcsshim calls (hcn/hcn.go), each a call to the emulator. */
#include "hcn.h"

#define EXPORT __declspec(dllexport) HRESULT WINAPI

#define OBJECT(NAME, PLURAL)                                                                                                       \
    EXPORT HcnEnumerate##PLURAL(const WCHAR *query, WCHAR **out, WCHAR **error) {                                                  \
        return hcn_call("HcnEnumerate" #PLURAL, NULL, 0, query, NULL, out, error);                                                 \
    }                                                                                                                              \
    EXPORT HcnOpen##NAME(const GUID *id, UINT64 *handle, WCHAR **error) {                                                          \
        return hcn_call("HcnOpen" #NAME, id, 0, NULL, handle, NULL, error);                                                        \
    }                                                                                                                              \
    EXPORT HcnModify##NAME(UINT64 handle, const WCHAR *settings, WCHAR **error) {                                                  \
        return hcn_call("HcnModify" #NAME, NULL, handle, settings, NULL, NULL, error);                                             \
    }                                                                                                                              \
    EXPORT HcnQuery##NAME##Properties(UINT64 handle, const WCHAR *query, WCHAR **out, WCHAR **error) {                             \
        return hcn_call("HcnQuery" #NAME "Properties", NULL, handle, query, NULL, out, error);                                     \
    }                                                                                                                              \
    EXPORT HcnDelete##NAME(const GUID *id, WCHAR **error) { return hcn_call("HcnDelete" #NAME, id, 0, NULL, NULL, NULL, error); }  \
    EXPORT HcnClose##NAME(UINT64 handle) { return hcn_call("HcnClose" #NAME, NULL, handle, NULL, NULL, NULL, NULL); }

#define CREATE(NAME)                                                                                                               \
    EXPORT HcnCreate##NAME(const GUID *id, const WCHAR *settings, UINT64 *handle, WCHAR **error) {                                 \
        return hcn_call("HcnCreate" #NAME, id, 0, settings, handle, NULL, error);                                                  \
    }

OBJECT(Network, Networks)
CREATE(Network)
OBJECT(Endpoint, Endpoints)
EXPORT HcnCreateEndpoint(UINT64 network, const GUID *id, const WCHAR *settings, UINT64 *handle, WCHAR **error) {
    return hcn_call("HcnCreateEndpoint", id, network, settings, handle, NULL, error);
}
OBJECT(Namespace, Namespaces)
CREATE(Namespace)
OBJECT(LoadBalancer, LoadBalancers)
CREATE(LoadBalancer)
OBJECT(SdnRoute, SdnRoutes)
CREATE(SdnRoute)

BOOL WINAPI DllMain(HINSTANCE instance, DWORD reason, LPVOID reserved) { return TRUE; }
