// Package windows tests the roles and plays for Windows hosts: ansible-playbook runs them for real, against
// stand-ins for the hosts that answer every module as Windows would and remember what they were told. On one
// of them weft.exe itself runs, under Wine over the emulated HNS. The tests have the build tag ansible.
package windows
