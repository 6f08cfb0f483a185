// Package settings is what the controller is told: its keys, their defaults, and how they are checked.
//
// A [Config] holds the keys as the user wrote them. [Config.Settings] checks it, and gives [Settings], which has the
// same in the types that the translation works with. What follows from the settings alone stands here, too, as the
// addresses of routers on the join switch.
//
// Of packages below ovn it imports ipam alone.
package settings
