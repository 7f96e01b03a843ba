package cloudapi

// adviceToken is for a token that is not there, or that nobody knows.
const adviceToken = "check WEIR_ACCESS_TOKEN, WEIR_ACCESS_TOKEN_FILE or the number's token file"

// unregistered is the advice for a number whose registration is not in order.
const unregistered = "finish the number's registration in WhatsApp Manager"

// accountCodes are about the token, the app, the business account or the
// number. Every further call would meet the same answer, so they stop their
// scope at once and spend nothing.
var accountCodes = []entry{
	// The token itself is refused: every number that uses it is (Meta's
	// error page, "Authorization errors"; 102 is generic Graph). 104 has been
	// seen for a missing token.
	{lo: 0, asks: stopApp, title: "token could not be authenticated", advice: "make a new system-user token, or ask the user to allow the app again"},
	{lo: 102, asks: stopApp, title: "session of the token has expired", advice: "make a new system-user token"},
	{lo: 104, asks: stopApp, title: "access token is missing or bad", advice: adviceToken},
	{lo: 190, asks: stopApp, title: "access token has expired or is invalid", advice: "put a new token into the token file; a running server reads it again"},

	// The token is good but not for this. Permission is granted per business
	// account, so another number of the same token may well be allowed: it
	// stops by its own first answer if not. 3 comes as HTTP 500 and is
	// permanent all the same.
	{lo: 3, asks: stopOne, title: "app lacks the capability to send", advice: "give the app the whatsapp_business_messaging permission"},
	{lo: 10, asks: stopOne, title: "permission not granted or removed", advice: "assign the business account to the system user again"},
	{lo: 200, asks: stopOne, title: "no token sent, or permission missing", advice: "assign the business account to the system user again"},
	{lo: 200, hi: 299, asks: stopOne, title: "permission not granted or removed", advice: "assign the business account to the system user again"},
	{lo: 131005, asks: stopOne, title: "access denied", advice: "assign the business account to the system user again"},

	// The number: deleted, unregistered, nameless or blamed for spam. 131048 is
	// not a throttle of seconds but a block of days, so it stops, and an
	// operator decides; it is also the likely code of a used up messaging
	// limit, which Meta does not document. 131045 comes as HTTP 500.
	{lo: 33, asks: stopOne, title: "phone number id does not exist", advice: "compare the id with WhatsApp Manager: it is not the phone number itself"},
	{lo: 803, asks: stopOne, title: "phone number id is unknown to this token", advice: "compare the id with WhatsApp Manager and the token's accounts"},
	{lo: 131037, asks: stopOne, title: "display name is not approved", advice: "have the display name approved in WhatsApp Manager"},
	{lo: 131045, asks: stopOne, title: "number is not registered correctly", advice: "register the number again"},
	{lo: 131048, asks: stopOne, title: "number restricted as spam, or its messaging limit is used up", advice: "look at the number's quality in WhatsApp Manager before sending more"},
	{lo: 133006, asks: stopOne, title: "number must be verified again", advice: "verify and register the number again"},
	{lo: 133010, asks: stopOne, title: "number is not registered", advice: "register the number on the Cloud API"},

	// The business account: policy, payment, locks. All its numbers stop. 368
	// is called temporary by Graph, yet WhatsApp's blocks run for days.
	{lo: 368, asks: stopWABA, title: "business account restricted for policy", advice: "see the account's restrictions in WhatsApp Manager"},
	{lo: 131031, asks: stopWABA, title: "account locked", advice: "see the account's restrictions in WhatsApp Manager"},
	{lo: 131042, asks: stopWABA, title: "payment method missing or not accepted", advice: "settle the payment method of the business account"},
	{lo: 131064, asks: stopWABA, title: "messaging limit lowered for misclassified templates", advice: "wait until the enforcement period ends and correct the templates' category"},

	// Registration and migration of a number. None belongs to a send; should
	// one answer a send, the number is not in order, and stopping it spends
	// nothing while failing rows would lose people.
	{lo: 133000, asks: stopOne, offPath: true, title: "number's earlier deregistration is incomplete", advice: unregistered},
	{lo: 133005, asks: stopOne, offPath: true, title: "two-step verification PIN is wrong", advice: unregistered},
	{lo: 133008, asks: stopOne, offPath: true, title: "too many PIN guesses", advice: unregistered},
	{lo: 133009, asks: stopOne, offPath: true, title: "PIN was guessed too fast", advice: unregistered},
	{lo: 133015, asks: stopOne, offPath: true, title: "number was deleted a moment ago", advice: unregistered},
	{lo: 133016, asks: stopOne, offPath: true, title: "number was registered too often", advice: unregistered},
	{lo: 2388001, asks: stopOne, offPath: true, title: "number cannot migrate: ownership or two-step verification", advice: unregistered},
	{lo: 2388012, asks: stopOne, offPath: true, title: "number cannot migrate: it is there already", advice: unregistered},
	{lo: 2388091, asks: stopOne, offPath: true, title: "number may not have a registration code", advice: unregistered},
	{lo: 2388103, asks: stopOne, offPath: true, title: "number cannot migrate: account is not set up", advice: unregistered},
}
